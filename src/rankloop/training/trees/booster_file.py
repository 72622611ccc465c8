"""The file of a booster: LightGBM's text, XGBoost's JSON or UBJ, or what `rankloop train --trees` wrote."""

import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from rankloop.core.errors import InvalidInput
from rankloop.core.types import Floats
from rankloop.training.trees.booster_structure import Grown, lightgbm_structure, xgboost_structure
from rankloop.training.trees.tree_ranker import LIGHTGBM, XGBOOST, TreeRanker

MAX_DEPTH = 64
MAX_ITEMS = 100_000_000  # of a list that says so before it comes
NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
CONSTANTS = {"Z": None, "T": True, "F": False}
UBJ = b"{L"  # how XGBoost's binary begins; JSON does not
FLAGS = {"true": 1, "yes": 1, "1": 1, "false": 0, "no": 0, "0": 0}
MAX_NUMBER = sys.float_info.max
WANTED = "a base is what LightGBM's save_model, XGBoost's save_model (JSON or UBJ) or `rankloop train --trees` writes"


def check_booster(content: bytes) -> None:
    """Refuse a file that is no booster with a score, whoever asks for it."""
    booster = NamedBooster(content, ())
    n_features = booster.grown[0].n_features
    scores = booster.trees.scores(np.stack([np.zeros(n_features), np.full(n_features, np.nan)]))
    if not np.isfinite(scores).all():
        raise InvalidInput("its scores are not finite")


def read_booster(content: bytes) -> TreeRanker:
    """The trees that a file says it holds, or `InvalidInput` that says what it is instead; not for a library yet."""
    if content.startswith(UBJ):
        return TreeRanker((msgspec.json.encode(_ubj_value(content)).decode(),), (), kind=XGBOOST)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(f"this is no booster file: {WANTED}") from None
    if text.startswith("tree\r\n"):
        raise InvalidInput("the file has the line ends of Windows: send it as LightGBM saved it")
    if text.startswith("tree\n"):
        return TreeRanker((text,), ())
    try:
        table = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"this is no booster file, or not all of it ({error}): {WANTED}") from None
    if isinstance(table, Mapping) and "boosters" in table:
        return TreeRanker.from_plain(table)
    if isinstance(table, Mapping) and "learner" in table:
        return TreeRanker((text,), (), kind=XGBOOST)
    if isinstance(table, Mapping) and "tree_info" in table:
        raise InvalidInput("this is what LightGBM's dump_model writes, which it cannot read again: use save_model")
    raise InvalidInput(f"this is no booster file: {WANTED}")


class NamedBooster:
    """The booster of a file, whose features are found by name among those of a ranker. It is read when it is needed."""

    def __init__(self, content: bytes, names: Sequence[str]) -> None:
        self.content = content
        self.names = tuple(names)  # of the ranker's features, without the score itself

    @cached_property
    def hash(self) -> str:
        """The SHA-256 of the file, in hex; that of `TreeRanker` where `rankloop train --trees` wrote it."""
        return sha256(self.content).hexdigest()

    @cached_property
    def grown(self) -> list[Grown]:
        """The boosters of the file, as a library may read them; all on the same features."""
        found = [_structure(self._given.kind, text) for text in self._given.texts]
        if len({(one.n_features, one.names) for one in found}) != 1:
            raise InvalidInput("its boosters were grown on different features")
        return found

    @cached_property
    def trees(self) -> TreeRanker:
        given = self._given
        trees = TreeRanker([one.text for one in self.grown], sorted(given.query_ids), given.scale, given.kind)
        _ = trees.boosters  # so that a library which is not there is missed now
        return trees

    @cached_property
    def _given(self) -> TreeRanker:
        return read_booster(self.content)

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """The ranker's names of the booster's features, in its order; one without names takes all, as they stand."""
        n_features, asked = self.grown[0].n_features, self._given.names or self.grown[0].names
        if not asked:
            if n_features != len(self.names):
                told = f"it was grown on {n_features} features without names, and the ranker has"
                raise InvalidInput(f"{told} {len(self.names)}: {', '.join(self.names):.200}")
            return self.names
        if len(asked) != n_features:
            raise InvalidInput(f"the file names {len(asked)} features for trees of {n_features}")
        known = {_plain(name): name for name in self.names} | {name: name for name in self.names}
        lacking = [name for name in asked if name not in known]
        if lacking:
            told = ", ".join(self.names)
            raise InvalidInput(f"it needs the feature {lacking[0]!r:.80}, which the ranker does not have ({told:.200})")
        return tuple(known[name] for name in asked)

    @cached_property
    def _columns(self) -> list[int]:
        return [self.names.index(name) for name in self.wanted]

    def scores(self, rows: Floats, query_id: str) -> Floats:
        """Of rows with a number for each of `names`, NaN where it is missing."""
        return self._finite(self.trees.scores(rows[:, self._columns], query_id))

    def scores_of_values(self, rows: Sequence[Mapping[str, Any]], query_id: str) -> Floats:
        """The same of values by name; one that is not given is missing."""
        table = [[_number(row.get(name)) for name in self.wanted] for row in rows]
        return self._finite(self.trees.scores(np.array(table).reshape(len(rows), -1), query_id))

    def _finite(self, scores: Floats) -> Floats:
        if not np.isfinite(scores).all():
            raise InvalidInput("the booster gives a score that is not finite")
        return scores


def _structure(kind: str, text: str) -> Grown:
    return lightgbm_structure(text) if kind == LIGHTGBM else xgboost_structure(text)


def _plain(name: str) -> str:
    """As LightGBM keeps a name: without blanks."""
    return "_".join(name.split(" "))


def _number(value: Any) -> float:
    """Of a number or a flag; anything else is missing, or will be refused by the schema."""
    if isinstance(value, str):
        value = FLAGS.get(value.strip().lower())
    if not isinstance(value, int | float) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        return float("nan")
    return float(value)


def _ubj_value(content: bytes) -> Any:
    """Universal Binary JSON as XGBoost writes it; `InvalidInput` where it ends early or says something else."""
    try:
        return _UBJReader(content).value(0)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the file was not written to the end, or is no UBJ: {error}") from None


class _UBJReader:
    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def value(self, depth: int, kind: str = "") -> Any:
        kind = kind or self._character()
        if depth > MAX_DEPTH:
            raise InvalidInput("lists in lists without end")
        if kind in CONSTANTS:
            return CONSTANTS[kind]
        if kind in NUMBERS:
            return self._array(kind, 1)[0]
        if kind == "S":
            return self._text()
        if kind == "{":
            return self._table(depth)
        if kind == "[":
            return self._list(depth)
        raise InvalidInput(f"the file has {kind!r} where a value begins")

    def _table(self, depth: int) -> dict[str, Any]:
        table = {}
        while not self._ends("}"):
            key = self._text()
            table[key] = self.value(depth + 1)
        return table

    def _list(self, depth: int) -> list[Any]:
        kind = self._character() if self._ends("$") else ""
        if self._ends("#"):
            n = self._size()
            return self._array(kind, n) if kind in NUMBERS else [self.value(depth + 1, kind) for _ in range(n)]
        found = []
        while not self._ends("]"):
            found.append(self.value(depth + 1))
        return found

    def _array(self, kind: str, n: int) -> list[Any]:
        numbers = np.frombuffer(self._bytes(n * np.dtype(NUMBERS[kind]).itemsize), NUMBERS[kind])
        found: list[Any] = numbers.tolist()
        return found

    def _text(self) -> str:
        return self._bytes(self._size()).decode()

    def _size(self) -> int:
        size = self.value(MAX_DEPTH)  # a number: nothing may begin inside it
        if type(size) is not int or not 0 <= size <= min(len(self.content), MAX_ITEMS):
            raise InvalidInput(f"{size!r:.40} is no size")
        return size

    def _ends(self, character: str) -> bool:
        """Whether this character comes next; it is passed over."""
        comes = self.content[self.at : self.at + 1] == character.encode()
        self.at += comes
        return comes

    def _character(self) -> str:
        return self._bytes(1).decode("latin-1")

    def _bytes(self, n: int) -> bytes:
        found = self.content[self.at : self.at + n]
        if len(found) != n:
            raise InvalidInput("the file ends early")
        self.at += n
        return found
