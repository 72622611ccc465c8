"""One reader of tables: CSV, JSON Lines, Parquet and Arrow files, packed or not, and frames of pandas and polars."""

import codecs
import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rankloop.core.errors import InvalidInput
from rankloop.core.extras import import_extra
from rankloop.data.compression import opened
from rankloop.data.folder import given_path
from rankloop.logs.columns import refuse_twice

BLOCK_BYTES = 8 << 20
PIECE_ROWS = 1 << 16
COLUMN_SEPARATORS = ",;\t|"
DECIMAL_NUMBER = re.compile(r"\s*[+-]?\d+([.,])\d+\s*$")
DECIMAL_LINES = 10_000  # of a file, in which decimals are looked at
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # the first bytes of files in UTF-16
UTF8_MARK = b"\xef\xbb\xbf"
MAX_FAULTS = 20  # named in one message

Format = Literal["csv", "json", "parquet", "arrow", "frame"]
FORMAT_MARKS: dict[bytes, Format] = {b"PAR1": "parquet", b"ARROW1": "arrow"}  # the first bytes of such files
Given = str | Path | Any  # Any: a frame with the Arrow interface, as those of pandas, polars and pyarrow


class Fault(NamedTuple):
    """A cell or a row that cannot be what it should be; rows count from 1, an empty column means the complete row."""

    row: int
    column: str
    value: str
    rule: str = ""  # what it must be

    def __str__(self) -> str:
        if not self.column:
            return f"row {self.row} {self.value}"
        cell = f"is {self.value!r}" if self.value else "is missing"
        return f"row {self.row}: {self.column} {cell}{self.rule}"


class TableReader:
    """A table that can be read again and again; what is wrong with it is said with its name, the row and the column.

    The first bytes of a file tell its format, whatever it is called. Columns of a CSV file are separated by commas, or
    by semicolons, tabs or bars where its first line has no comma; then a comma may be the decimal mark.
    """

    def __init__(self, table: Given) -> None:
        self.path: Path | None = None
        self.format: Format = "frame"
        self.encoding = "utf-8"
        self.ragged: list[Fault] = []  # rows of a CSV file with too few or too many columns, which were left out
        self._frame: Any = None
        if isinstance(table, str | Path):
            self.path = table if isinstance(table, Path) and table.exists() else given_path(str(table))
            self.encoding = _encoding_of(self.path)
            with _opened_text(self.path, self.encoding) as file:
                head = file.read(64)
            is_json = head.removeprefix(UTF8_MARK).lstrip()[:1] in (b"{", b"[")
            marked: list[Format] = [format for mark, format in FORMAT_MARKS.items() if head.startswith(mark)]
            self.format = marked[0] if marked else "json" if is_json else "csv"
            self.name = self.path.name
        elif isinstance(table, TableReader):
            self.path, self.format, self.name, self._frame = table.path, table.format, table.name, table._frame
            self.encoding = table.encoding
        else:
            self.name, self._frame = "the table", table

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        if self.format == "csv":
            return self._csv_head[0]
        if self.format == "parquet":
            parquet = import_extra("pyarrow.parquet")
            with self._errors_with_name():
                return list(parquet.ParquetFile(self._file).schema_arrow.names)
        return list(self.read_table().column_names)

    def read_table(self, numbers: Sequence[str] = (), texts: Sequence[str] = ()) -> Any:
        """All of it as an Arrow table; what is not named in `numbers` or `texts` is read as it looks.

        An empty text is a text here, and NA too: only numbers can be missing in a CSV file.
        """
        with self._errors_with_name():
            if self.format == "parquet":
                return import_extra("pyarrow.parquet").read_table(self._file)
            if self.format != "csv":
                return self._in_memory(texts)
            arrow_csv = import_extra("pyarrow.csv")
            with self._opened_csv(self.names, numbers, texts) as (file, parse, convert):
                return arrow_csv.read_csv(file, arrow_csv.ReadOptions(use_threads=False), parse, convert)

    def batches(self, chosen: Sequence[str], numbers: Sequence[str] = (), texts: Sequence[str] = ()) -> Iterator[Any]:
        """Yield the chosen columns, a piece at a time."""
        with self._errors_with_name():
            if self.format == "parquet":
                parquet = import_extra("pyarrow.parquet")
                yield from parquet.ParquetFile(self._file).iter_batches(PIECE_ROWS, columns=list(chosen))
            elif self.format == "csv":
                yield from self._csv(chosen, numbers, texts)
                self.refuse(self.ragged)
            else:
                yield from self._in_memory(texts).select(list(chosen)).to_batches(PIECE_ROWS)

    def texts_in(self, numbers: Sequence[str]) -> list[Fault]:
        """Return the texts in columns that should hold numbers; only a CSV file does not know its types."""
        columns = [name for name in numbers if name in self.names]
        with suppress(InvalidInput), self._errors_with_name():  # suppressed: the file cannot be read at all
            if self.format == "csv" and columns:
                return self.text_faults(self._csv(columns, (), columns), columns)
        return []

    def text_faults(self, tables: Iterable[Any], numbers: Sequence[str], first_row: int = 1) -> list[Fault]:
        """Return all texts in the columns of numbers of pieces of a table."""
        faults, decimal = list[Fault](), self.decimal
        for table in tables:
            for name in numbers:
                for row, value in enumerate(table[name].to_pylist(), first_row):
                    try:
                        float(value.replace(decimal, ".") if isinstance(value, str) else value or 0.0)
                    except (TypeError, ValueError):
                        faults.append(Fault(row, name, value, "; it must be a number"))
            first_row += table.num_rows
        return faults

    def refuse(self, faults: Sequence[Fault], more: str = "") -> None:
        """Raise `InvalidInput` with the first faults, if there are any, and with what to do about them."""
        if len(faults) == 1:
            raise InvalidInput(f"{self.name}, {faults[0]}{more}")
        if faults:
            count = f"{len(faults):,} faults" + (f", the first {MAX_FAULTS}" if len(faults) > MAX_FAULTS else "")
            raise InvalidInput(f"{self.name} has {count}: {'; '.join(map(str, sorted(faults)[:MAX_FAULTS]))}{more}")

    @property
    def decimal(self) -> str:
        """The decimal mark of the numbers in a file."""
        return self._csv_head[2] if self.format == "csv" else "."

    @property
    def _file(self) -> Path:
        if self.path is None:
            raise InvalidInput(f"{self.name} is not a file")
        return self.path

    @contextmanager
    def _opened_csv(
        self, columns: Sequence[str], numbers: Sequence[str], texts: Sequence[str], **converting: Any
    ) -> Iterator[tuple[Any, Any, Any]]:
        """Open a CSV file, with how it is parsed and how its cells are converted; threads would not number the rows."""
        self.ragged.clear()
        refuse_twice(self.names, self.name, columns)
        pa, arrow_csv = import_extra("pyarrow"), import_extra("pyarrow.csv")
        _, separator, decimal = self._csv_head
        types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
        types = {name: kind for name, kind in types.items() if name in columns}
        parse = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True, invalid_row_handler=self._note_row)
        convert = arrow_csv.ConvertOptions(column_types=types, decimal_point=decimal, **converting)
        with _opened_text(self._file, self.encoding) as file:
            yield file, parse, convert

    @cached_property
    def _csv_head(self) -> tuple[list[str], str, str]:
        """The names of the columns, what separates them, and the decimal mark."""
        # The mark is a comma if it separates no columns and some numbers have one, and none a point.
        with _opened_text(self._file, self.encoding) as file:
            first = file.readline()
            text = first.decode("utf-8", "replace")
            separator = "," if "," in text else max(COLUMN_SEPARATORS, key=text.count)
            beginning = chain([first], islice(iter(file.readline, b""), DECIMAL_LINES))
            rows = csv.reader((line.decode("utf-8-sig", "replace") for line in beginning), delimiter=separator)
            try:
                names = next(rows, [])
            except csv.Error as error:
                raise InvalidInput(f"{self.name}: the first line should name the columns: {error}") from None
            if not any(map(str.strip, names)):
                raise InvalidInput(f"{self.name} is empty; its first line should name the columns")
            try:
                cells = chain.from_iterable(rows if separator != "," else ())
                marks = {match[1] for match in map(DECIMAL_NUMBER.match, cells) if match}
            except csv.Error:  # the reader of the table says what is wrong
                marks = set()
        return names, separator, "," if marks == {","} else "."

    def _csv(self, chosen: Sequence[str], numbers: Sequence[str], texts: Sequence[str]) -> Iterator[Any]:
        arrow_csv = import_extra("pyarrow.csv")
        reading = arrow_csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES)
        converting = {"include_columns": chosen, "strings_can_be_null": True}
        with self._opened_csv(chosen, numbers, texts, **converting) as (file, parse, convert):
            yield from arrow_csv.open_csv(file, reading, parse, convert)

    def _note_row(self, row: Any) -> str:
        value = f"has {row.actual_columns} columns, not {row.expected_columns}"
        self.ragged.append(Fault((row.number or 1) - 1, "", value))
        return "skip"

    def _in_memory(self, texts: Sequence[str] = ()) -> Any:
        pa = import_extra("pyarrow")
        if self.format == "arrow":
            table = import_extra("pyarrow.feather").read_table(self._file)
        elif self.format == "json":
            table = _json_table(self._file, texts, self.encoding)
        elif hasattr(self._frame, "__arrow_c_stream__") or isinstance(self._frame, Mapping):
            table = pa.table(self._frame)
        elif isinstance(self._frame, list) and all(isinstance(row, dict) for row in self._frame):
            table = pa.Table.from_pylist(self._frame)
        else:
            forms = "a file, a frame of pandas, polars or pyarrow, or a list of dicts"
            raise InvalidInput(f"a table is {forms}, not {type(self._frame).__name__}")
        return table.select([name for name in table.column_names if not name.startswith("__index_level_")])

    @contextmanager
    def _errors_with_name(self) -> Iterator[None]:
        """Raise errors of the reader of files as ours, in one line with the name of the table."""
        pa = import_extra("pyarrow")
        try:
            yield
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InvalidInput(f"{self.name}: {' '.join(str(error).split())}") from None


def _encoding_of(path: Path) -> str:
    """Return utf-16 where a file begins so, else utf-8 where all of it is, else cp1252."""
    with opened(path) as file:
        block = file.read(BLOCK_BYTES)
        if block.startswith(UTF16_MARKS):
            return "utf-16"
        if block.startswith(tuple(FORMAT_MARKS)):
            return "utf-8"
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while block:
                decoder.decode(block)
                block = file.read(BLOCK_BYTES)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


@contextmanager
def _opened_text(path: Path, encoding: str) -> Iterator[Any]:
    """Open a file, decompress it, and convert it to UTF-8."""
    with opened(path) as file:
        yield file if encoding == "utf-8" else codecs.EncodedFile(file, "utf-8", encoding, "replace")


def json_values(path: Path, encoding: str = "utf-8") -> Iterator[tuple[int, Any]]:
    """Yield the values of a file, one per line or in one list, each with its line (or its number in the list).

    Args:
      path: The file.
      encoding: The encoding of the file.
    """
    with _opened_text(path, encoding) as file:
        first = file.readline().removeprefix(UTF8_MARK).strip()
    if not first:
        raise InvalidInput(f"{path.name} is empty, or begins with an empty line")
    try:
        by_line = not first.startswith(b"[") and json.loads(first) is not None
    except (ValueError, RecursionError):  # one value over several lines, none, or one that `_parse_json` refuses
        by_line = False
    with _opened_text(path, encoding) as file:
        if by_line:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _parse_json(line, path.name, number)
        else:
            values = _parse_json(file.read(), path.name, 0)
            yield from enumerate(values if isinstance(values, list) else [values], start=1)


def _parse_json(text: bytes, where: str, line: int) -> Any:
    try:
        return json.loads(text.removeprefix(UTF8_MARK))
    except UnicodeDecodeError:
        raise InvalidInput(f"{where}, line {line or 1}: this is not UTF-8: save the file as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{where}, line {line or getattr(error, 'lineno', 1)}: this is not JSON: {error}") from None


def _json_table(path: Path, texts: Sequence[str] = (), encoding: str = "utf-8") -> Any:
    """Read every object as a row."""
    records = dict(json_values(path, encoding))
    for line, record in records.items():
        if not isinstance(record, dict):
            problem = f"a row is an object of columns, got {json.dumps(record)[:60]}"
            raise InvalidInput(f"{path.name}, line {line}: {problem}")
    names = dict.fromkeys(name for record in records.values() for name in record)
    return arrow_table({name: [record.get(name) for record in records.values()] for name in names}, texts)


def arrow_table(columns: Mapping[str, Sequence[Any]], texts: Sequence[str] = ()) -> Any:
    """Return columns as an Arrow table; one whose values are of several types is one of texts.

    Args:
      columns: The values by column.
      texts: Further columns that become texts.
    """
    pa, arrays = import_extra("pyarrow"), dict[str, Any]()
    for name, values in columns.items():
        kinds = {_kind(value) for value in values if value is not None}
        as_texts = name in texts or len(kinds) > 1 or kinds == {"huge"}
        if as_texts:
            values = [v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False) for v in values]
        arrays[name] = pa.array(values)
    return pa.table(arrays)


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "huge" if isinstance(value, int) and not -(2**63) <= value < 2**63 else "number"
    return type(value).__name__
