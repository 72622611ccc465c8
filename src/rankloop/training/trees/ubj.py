"""Universal Binary JSON, as XGBoost writes it: tables, lists (typed ones by their size) and scalars."""

import struct
from typing import Any

import numpy as np

from rankloop.core.errors import InvalidInput

MAX_DEPTH = 64
MAX_ITEMS = 100_000_000  # of a list that says so before it comes
NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
CONSTANTS = {"Z": None, "T": True, "F": False}


def decoded(content: bytes) -> Any:
    """What the bytes say; `InvalidInput` where they end early or say something else."""
    try:
        return _Reader(content).value(0)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"the file was not written to the end, or is no UBJ: {error}") from None


class _Reader:
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
