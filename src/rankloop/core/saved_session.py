"""Saving and loading of sessions: one zip file of a JSON header and arrays. No pickle; nothing in it is executed."""

import io
import json
import math
import os
import tokenize
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankloop.core.compilation import processor
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import atomic_write
from rankloop.core.registry import UnknownKind, build, spec_of
from rankloop.core.session import Session
from rankloop.core.types import MAX_HASHED, Problem
from rankloop.core.weight_table import WeightTable

FORMAT_VERSION = 1
HEADER_NAME = "session.json"
MAX_COUNT = 2**53  # larger than any real count of rounds, clicks or items
SMALL_SIZE = 64  # with which a learner is built first, to see how much memory it starts with
MAX_UNSAVED_SIZE = 2**20  # features or items of a problem, for a file without an array of that size
READ_ERRORS = (  # that a damaged file can raise
    zipfile.BadZipFile, tokenize.TokenError, SyntaxError, EOFError, KeyError, TypeError, ValueError, MemoryError,
    OverflowError, RuntimeError,
)  # fmt: skip


def save(session: Session, path: str | os.PathLike[str], notes: Mapping[str, Any] | None = None) -> None:
    """Write a session to one file, atomically.

    Args:
      session: The session.
      path: The file; an existing one is replaced.
      notes: Further data for JSON, which `load_with_notes` returns.
    """
    atomic_write(Path(path), dumps(session, notes))


def load(path: str | os.PathLike[str]) -> Session:
    """Load a session, which continues exactly where it stopped, exploration included.

    Raises:
      NotFound: If there is no such file.
      InvalidInput: If the file is damaged or not one of rankloop's.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Session, dict[str, Any]]:
    """Load a session and the notes that were saved with it; raise the errors of `load`."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise NotFound(f"there is no file {os.fspath(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{os.fspath(path)!r} cannot be read: {error}") from None
    return loads_with_notes(content, os.fspath(path))


def dumps(session: Session, notes: Mapping[str, Any] | None = None) -> bytes:
    """Return the contents that `save` writes.

    Args:
      session: The session.
      notes: Further data for JSON.
    """
    state, generator, learned, refused = session.snapshot()
    arrays: list[Any] = []
    header = {
        "format": FORMAT_VERSION,
        "cpu": processor(),
        "learner": spec_of(session.learner),
        "problem": session.problem._asdict(),
        "seed": session.seed,
        "learned": learned,
        "refused": refused,
        "generator": generator,
        "notes": dict(notes or {}),
        "state": _outline(state, arrays),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(HEADER_NAME, json.dumps(header, allow_nan=False))
        for i, array in enumerate(arrays):
            part = io.BytesIO()
            np.lib.format.write_array(part, array, allow_pickle=False)
            archive.writestr(f"{i}.npy", part.getvalue())
    return buffer.getvalue()


def loads(content: bytes) -> Session:
    """Return the session of the contents of a saved file."""
    return loads_with_notes(content)[0]


def loads_with_notes(
    content: bytes, where: str = "this content", max_hashed: int = MAX_HASHED
) -> tuple[Session, dict[str, Any]]:
    """Return the session and the notes of the contents of a saved file.

    Args:
      content: The contents.
      where: Their name, for error messages.
      max_hashed: The limit of hashed columns.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if any(part.compress_type != zipfile.ZIP_STORED or part.flag_bits & 1 for part in parts):
                raise InvalidInput("its parts are compressed or encrypted")
            if sum(part.file_size for part in parts) > len(content):
                raise InvalidInput("its parts are larger than the file itself")
            header = json.loads(archive.read(HEADER_NAME), parse_float=_finite, parse_constant=_finite)
            _check_header(header, where)
            problem, n_bytes = Problem(**header["problem"]), len(content)
            if problem.n_hashed > max_hashed:
                raise InvalidInput(f"its weight table has {problem.n_hashed} hashed columns, the limit is {max_hashed}")
            size = max(problem.n_dense, problem.n_items or 0, problem.n_context)  # larger ones cannot be in the file
            if size > max(n_bytes, MAX_UNSAVED_SIZE) or not starts_within(header["learner"], problem, n_bytes):
                raise InvalidInput("its learner or its problem has larger sizes than its arrays")
            return _restore_session(header, archive), dict(header["notes"])
    except UnknownKind as error:
        raise InvalidInput(f"{where}: {error}; import the module that registers it first") from None
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from None
    except READ_ERRORS as error:
        if content.startswith(b"{"):
            needed = "trees are the base of a ranker: create one in a service with the file as base.booster"
            raise InvalidInput(f"{where} is JSON, not a saved ranker; {needed}") from None
        raise InvalidInput(f"{where} is damaged or not a rankloop file: {error}") from None


def _finite(text: str) -> float:
    """Return a number of the header; Python's JSON reader would accept infinity."""
    if not math.isfinite(float(text)):
        raise ValueError(f"the header holds {text}")
    return float(text)


def _check_header(header: Any, where: str) -> None:
    if not isinstance(header, dict) or "format" not in header:
        raise InvalidInput("the header is not that of a rankloop file")
    if type(header["format"]) is not int or header["format"] != FORMAT_VERSION:
        raise InvalidInput(f"written in format {header['format']!r}, this version reads format {FORMAT_VERSION}")
    if header["cpu"] != processor():
        message = f"{where} was written on a {header['cpu']} CPU, this is a {processor()}: last digits may differ"
        warnings.warn(message, RuntimeWarning, stacklevel=4)


def _restore_session(header: dict[str, Any], archive: zipfile.ZipFile) -> Session:
    problem = Problem(**header["problem"])
    problem = problem._replace(feature_names=tuple(problem.feature_names))
    for name, limit in (("seed", math.inf), ("learned", MAX_COUNT), ("refused", MAX_COUNT)):
        if type(header[name]) is not int or not 0 <= header[name] <= limit:
            raise InvalidInput(f"{name} is a whole number from 0 to {limit}, got {header[name]!r:.60}")
    session = Session(build(header["learner"], "learner"), problem, header["seed"])

    def array(index: int) -> Any:
        return np.lib.format.read_array(io.BytesIO(archive.read(f"{index}.npy")), allow_pickle=False)

    state = _restored_state(header["state"], session.state, array)
    generator, bounds = header["generator"], {"has_uint32": 2, "uinteger": 2**32, "state": 2**128, "inc": 2**128}
    numbers = generator["state"] | {name: generator[name] for name in ("has_uint32", "uinteger")}
    if not all(type(numbers[name]) is int and 0 <= numbers[name] < bound for name, bound in bounds.items()):
        raise ValueError("invalid generator state")  # some versions of NumPy accept it
    session.restore(state, generator, header["learned"], header["refused"])
    return session


def starts_within(learner: Any, problem: Problem, max_bytes: int) -> bool:
    """Return True if the arrays that a learner starts with take at most `max_bytes`; a weight table does not count.

    It is built with small sizes first, then with sizes twice as large, and so on. So a state that grows with the
    product of three sizes is refused before it takes more than eight times what is allowed.

    Args:
      learner: The spec of the learner.
      problem: The problem that it starts with.
      max_bytes: The limit.
    """
    spec, largest = {"learner": learner, "problem": problem._replace(feature_names=())._asdict()}, SMALL_SIZE
    while True:
        smaller = _capped(spec, largest)
        if _initial_bytes(**smaller) > max_bytes:
            return False
        if smaller == spec:
            return True
        largest *= 2


def size_of(state: Any) -> float:
    """Return the bytes of the arrays in a state."""
    if isinstance(state, np.ndarray):
        return float(state.nbytes)
    return sum(map(size_of, state)) if isinstance(state, tuple) else 0.0


def _initial_bytes(learner: Any, problem: dict[str, Any]) -> float:
    """Return the bytes that a learner starts with; 0 if it cannot be built with such sizes."""
    try:
        return size_of(build(learner, "learner").init(Problem(**problem)))
    except MemoryError:
        return float("inf")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return 0.0


def _capped(spec: Any, largest: int) -> Any:
    """Return a spec in which no integer is larger."""
    if isinstance(spec, dict):
        return {name: _capped(part, largest) for name, part in spec.items()}
    return min(spec, largest) if type(spec) is int else spec


def _outline(value: Any, arrays: list[Any]) -> Any:
    """Return the state as plain data, with each array replaced by its number in `arrays`."""
    if hasattr(value, "_fields"):
        return {name: _outline(part, arrays) for name, part in zip(value._fields, value)}
    if isinstance(value, tuple):
        return [_outline(part, arrays) for part in value]
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, WeightTable):
        return {"columns": value.n_columns, "used": [_outline(part, arrays) for part in value.used()]}
    return value.item() if isinstance(value, np.generic) else value


def _restored_state(outline: Any, example: Any, array: Callable[[Any], Any], where: str = "state") -> Any:
    """Return a state from its outline, checked against the learner's initial state."""
    # Fields, types and shapes must be those of the initial state, except that an array without rows may have got some.
    # Numbers must be finite, numbers of the problem unchanged, and integers not below their initial values. A state
    # with a method `reachable` checks itself further.
    if hasattr(example, "_fields"):
        if set(outline) != set(example._fields):
            raise InvalidInput(f"{where} does not have the fields {', '.join(example._fields)}")
        parts = [(outline[name], part, f"{where}.{name}") for name, part in zip(example._fields, example)]
        state = type(example)._make(_restored_state(plain, part, array, place) for plain, part, place in parts)
        if hasattr(state, "reachable") and not state.reachable(example):
            raise InvalidInput(f"{where} cannot be the result of learning: its parts contradict each other")
        return state
    if isinstance(example, tuple):
        return tuple(_restored_state(part, like, array, where) for part, like in zip(outline, example, strict=True))
    if isinstance(example, np.ndarray):
        return _array(array(outline["array"]), example, where)
    if isinstance(example, WeightTable):
        if outline["columns"] != example.n_columns:
            n_columns = f"{outline['columns']!r:.60}"
            raise InvalidInput(f"{where} has {n_columns} columns, by the problem it is {example.n_columns}")
        columns, values = (array(part["array"]) for part in outline["used"])
        return _restored_table(example.n_columns, columns, values, where)
    if type(outline) is not type(example) and not (type(example) is float and type(outline) is int):
        raise InvalidInput(f"{where} must be of type {type(example).__name__}, got {outline!r:.60}")
    if where.rpartition(".")[2] in Problem._fields and outline != example:
        raise InvalidInput(f"{where} is {outline!r:.60}, by the problem it is {example!r}")
    if type(example) is int:
        _check_counts(outline, example, where)
    return type(example)(outline)


def _array(loaded: Any, example: Any, where: str) -> Any:
    may_grow = example.ndim > 1 and len(example) == 0 and all(example.shape[1:])
    shape = (len(loaded), *example.shape[1:]) if may_grow and loaded.ndim else example.shape
    if loaded.dtype != example.dtype or loaded.shape != shape:
        raise InvalidInput(f"{where} is {loaded.dtype}{loaded.shape}, the learner needs {example.dtype}{example.shape}")
    if not np.all(np.isfinite(loaded)):
        raise InvalidInput(f"{where} holds a number that is not finite")
    if loaded.dtype.kind in "iu":
        _check_counts(loaded, example, where)
    return np.ascontiguousarray(loaded)


def _restored_table(n_columns: int, columns: Any, values: Any, where: str) -> WeightTable:
    fits = columns.ndim == 1 and columns.dtype == np.int64 and values.dtype == np.float64
    if not fits or values.shape != (len(columns), 2):
        raise InvalidInput(f"{where} must be columns and two numbers for each")
    columns, values = np.ascontiguousarray(columns), np.ascontiguousarray(values)
    if len(columns) and not (columns[0] >= 0 and columns[-1] < n_columns and np.all(columns[1:] > columns[:-1])):
        raise InvalidInput(f"{where} has columns that are not ascending, or outside of 0 to {n_columns - 1}")
    if not np.all(np.isfinite(values)) or not np.all(values[:, 1] >= 0.0):
        raise InvalidInput(f"{where} has a number that is not finite, or evidence below 0")
    return WeightTable.of(n_columns, columns, values)


def _check_counts(values: Any, example: Any, where: str) -> None:
    least = int(np.min(example)) if np.size(example) else -MAX_COUNT
    if np.size(values) and not least <= int(np.min(values)) <= int(np.max(values)) <= MAX_COUNT:
        raise InvalidInput(f"{where} holds a number that is too small or too large: it must be from {least} to 2^53")
