"""Text files, compressed or not, as blocks of complete lines."""

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.extras import import_extra

Bytes = NDArray[np.uint8]
BLOCK_BYTES = 8 << 20
MAX_LINE_BYTES = 256 << 20
PACKED_BYTES = 64 << 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
READ_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, OSError, ValueError)


class Block(NamedTuple):
    """Complete lines: the bytes from start to stop. The buffer is reused for the next block."""

    raw: bytearray
    buffer: Bytes
    start: int
    stop: int


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file and decompress it if its first bytes are those of gzip, bzip2, xz or zstandard."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{str(path)!r} cannot be read: {error}") from None
    with file:
        magic = file.read(6)
        file.seek(0)
        content: Any = file
        if magic.startswith(b"\x1f\x8b"):
            content = gzip.open(file)  # noqa: SIM115 - `file` is closed above
        elif magic.startswith(b"BZh"):
            content = io.BufferedReader(_Members(file, bz2.BZ2Decompressor), PACKED_BYTES)
        elif magic.startswith(b"\xfd7zXZ\x00"):
            content = io.BufferedReader(_Members(file, lzma.LZMADecompressor), PACKED_BYTES)
        elif magic.startswith(b"\x28\xb5\x2f\xfd"):
            pyarrow = import_extra("pyarrow")
            content = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")
        yield content


def line_blocks(path: Path, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yield a file in blocks that end with a line.

    Args:
      path: The file, compressed or not.
      block_bytes: The size of a block; it grows for a longer line.
    """
    with opened(path) as file:
        raw, held, start = bytearray(block_bytes), 0, 0
        while True:
            try:
                n_read = int(file.readinto(memoryview(raw)[held:]))  # type: ignore[attr-defined]
            except READ_ERRORS as error:
                raise InvalidInput(f"{path.name} is cut short or damaged: {error}") from None
            if not n_read:
                break
            if held == 0 and start == 0 and raw.startswith(BYTE_ORDER_MARK):
                start = len(BYTE_ORDER_MARK)
            end = raw.rfind(b"\n", held, held + n_read) + 1
            held += n_read
            if end:
                yield Block(raw, np.frombuffer(raw, np.uint8), start, end)
                raw[: held - end] = raw[end:held]
                held, start = held - end, 0
            elif held == len(raw):
                if held >= MAX_LINE_BYTES:
                    limit = f"longer than {MAX_LINE_BYTES:,} bytes"
                    raise InvalidInput(f"{path.name}: a line is {limit}; this is not a text of lines")
                raw = raw + bytearray(held)
        if held > start:
            yield Block(raw, np.frombuffer(raw, np.uint8), start, held)


class _Members(io.RawIOBase):
    """Compressed streams one after another; unlike those of the standard library it refuses garbage at the end."""

    def __init__(self, file: IO[bytes], unpacker: Callable[[], Any]) -> None:
        self._file, self._new, self._now = file, unpacker, unpacker()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with decompressed bytes, and return how many there are."""
        unpacked = b""
        while not unpacked:
            packed = b""
            if self._now.eof:
                packed = self._now.unused_data.lstrip(b"\0")  # streams may be padded with zeros
                while not packed and (more := self._file.read(PACKED_BYTES)):
                    packed = more.lstrip(b"\0")
                if not packed:
                    return 0
                self._now = self._new()
            elif self._now.needs_input:
                packed = self._file.read(PACKED_BYTES)
                if not packed:
                    raise EOFError("the file ends before its last packed stream")
            unpacked = self._now.decompress(packed, len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)
