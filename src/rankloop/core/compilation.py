"""Compilation of kernels: the decorator, the processor they are compiled for, and where the machine code is kept.

Machine code is looked for in the package (a wheel carries it), then in a cache folder. It is compiled for the x86-64-v3
level instead of for the processor at hand, so that it runs on every such machine and all compute the same bits.
"""

import ctypes
import mmap
import os
import pickle
import platform
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba
from numba.core import caching as numba_caching
from numba.core.registry import cpu_target

from rankloop.core.files import PACKAGE_FOLDER, cache_folder, source_key

caching: Any = numba_caching  # its classes have no types
F = TypeVar("F", bound=Callable[..., Any])
REASSOCIATED_SUMS = {"reassoc", "contract", "nsz"}
CPU_LEVEL = "x86-64-v3"
CPU_LEVEL_FEATURES = (
    "+64bit,+avx,+avx2,+bmi,+bmi2,+cmov,+crc32,+cx16,+cx8,+f16c,+fma,+fxsr,+lzcnt,+mmx,+movbe,+popcnt,+sahf,+sse,+sse2,"
    "+sse3,+sse4.1,+sse4.2,+ssse3,+xsave"
)
PACKAGED_KERNELS = PACKAGE_FOLDER / "compiled"
SILENT_SECONDS = 1.0  # of compiling, before a terminal shows that it goes on


settings: Any = numba.config
if settings.CPU_NAME is None and platform.machine().lower() in ("x86_64", "amd64"):
    available = llvmlite.binding.get_host_cpu_features()
    if all(available.get(feature[1:], False) for feature in CPU_LEVEL_FEATURES.split(",")):
        settings.CPU_NAME, settings.CPU_FEATURES = CPU_LEVEL, CPU_LEVEL_FEATURES
        # Numba reads all its settings from the environment again whenever a NUMBA_* variable changes.
        os.environ.update(NUMBA_CPU_NAME=CPU_LEVEL, NUMBA_CPU_FEATURES=CPU_LEVEL_FEATURES)


def processor() -> str:
    """Return the processor that kernels are compiled for: machines with the same answer compute the same bits."""
    return str(cpu_target.target_context.codegen().magic_tuple()[1])


def release_compiler_memory() -> None:
    """Unmap the code of the compiler on Linux, some 80 MB, until another kernel is compiled."""
    with suppress(OSError):
        release: Any = ctypes.CDLL(None).madvise
        release.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for mapping in Path("/proc/self/maps").read_text().splitlines():
            if " r-xp " in mapping and "llvmlite" in mapping:  # code alone: nothing has changed it in memory
                begin, end = (int(address, 16) for address in mapping.split()[0].split("-"))
                release(begin, end - begin, mmap.MADV_DONTNEED)


@cache
def kernel_folder() -> Path:
    """Return the folder for machine code: `NUMBA_CACHE_DIR`, else beside a checkout, else in the cache folder."""
    # Its name changes with any line of the package, because a kernel may call one in another file.
    if folder := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(folder)
    checkout = PACKAGE_FOLDER.parents[1]
    parent = checkout / ".cache" if (checkout / "pyproject.toml").exists() else cache_folder()
    return parent / f"numba-{source_key()}"


class _CompilationProgress:
    """Counts where kernels came from, and shows on a terminal that compiling goes on."""

    def __init__(self) -> None:
        self.origins: Counter[str] = Counter()  # kernels by origin: "wheel", "cache" or "compiler"
        self._depth = 0
        self._started = 0.0

    def start(self) -> None:
        if self._depth == 0:
            self._started = time.monotonic()
        self._depth += 1
        self._show()

    def end(self) -> None:
        self.origins["compiler"] += 1
        self._depth = max(self._depth - 1, 0)
        self._show()

    def _show(self) -> None:
        if time.monotonic() - self._started > SILENT_SECONDS and sys.stderr is not None and sys.stderr.isatty():
            text = f"rankloop: compiling kernels (once) … {self.origins['compiler']} done" if self._depth else ""
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()


progress = _CompilationProgress()


class _KernelLocator(caching._CacheLocator):  # type: ignore[misc]
    """Places the machine code of a kernel by the name of its module, wherever the package is installed."""

    def __init__(self, function: Any, source_file: str) -> None:
        path = Path(source_file)
        if path.is_relative_to(PACKAGE_FOLDER):
            self.subfolder = ".".join(path.relative_to(PACKAGE_FOLDER).with_suffix("").parts)
        else:
            self.subfolder = str(caching._CacheLocator.get_suitable_cache_subpath(source_file))
        self._source_file = source_file
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, function: Any, source_file: str) -> "_KernelLocator":
        return cls(function, source_file)

    def get_cache_path(self) -> str:
        return str(kernel_folder() / self.subfolder)

    def get_source_stamp(self) -> str:  # code with another stamp is not used
        return _file_digest(self._source_file)

    def get_disambiguator(self) -> str:  # tells functions of one name in one file apart
        return str(self._line)


class _CacheImplementation(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_KernelLocator,)


class PackagedKernels(caching.IndexDataCacheFile):  # type: ignore[misc]
    """The machine code of one kernel in the package, where it is compressed: a third of the size."""

    def _load_data(self, name: str) -> Any:
        content = Path(self._data_path(name)).read_bytes()
        return pickle.loads(zlib.decompress(content))  # noqa: S301  (a file of the package, trusted like its code)


class _KernelCache(caching.FunctionCache):  # type: ignore[misc]
    """The machine code of one kernel: first from the package, then from the cache folder."""

    _impl_class = _CacheImplementation

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        locator = self._impl.locator
        packaged = PACKAGED_KERNELS / locator.subfolder
        self._stores = [("cache", self._cache_file)]
        if packaged.is_dir():
            base, stamp = self._impl.filename_base, locator.get_source_stamp()
            self._stores.insert(0, ("wheel", PackagedKernels(str(packaged), base, stamp)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for a signature, or None if it has to be compiled."""
        target_context.refresh()
        key = self._index_key(sig, target_context.codegen())
        for origin, store in self._stores:
            try:
                data = store.load(key)
                loaded = None if data is None else self._impl.rebuild(target_context, data)
            except Exception:  # whatever a file of another process or version holds, the kernel can be compiled
                continue
            if loaded is not None and loaded.signature.args == tuple(sig):  # two processes may save under one name
                progress.origins[origin] += 1
                return loaded
        progress.start()
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled form; a folder that cannot be written to costs a warning, once."""
        progress.end()
        try:
            super().save_overload(sig, data)
        except OSError:
            _warn_of_unwritable_folder()


def kernel(function: F, *, fastmath: bool | set[str] = False) -> F:
    """Compile a function to machine code that runs without the interpreter lock and is kept on disk.

    Args:
      function: A function of numbers, arrays and named tuples of them.
      fastmath: Freedoms of the compiler, as numba names them.
    """
    dispatcher: Any = numba.njit(function, nogil=True, fastmath=fastmath)
    if not settings.DISABLE_JIT and Path(function.__code__.co_filename).is_file():  # not typed into a prompt
        dispatcher._cache = _KernelCache(function)
    return dispatcher  # type: ignore[no-any-return]


def reassociated(function: F) -> F:
    """Compile a kernel whose sums may be reordered (as fast as BLAS); NaN and infinity keep their meaning."""
    return kernel(function, fastmath=REASSOCIATED_SUMS)


@cache
def _file_digest(path: str) -> str:
    return sha256(Path(path).read_bytes()).hexdigest()


@cache
def _warn_of_unwritable_folder() -> None:
    message = f"compiled kernels cannot be kept in {kernel_folder()}: set NUMBA_CACHE_DIR to a writable folder"
    warnings.warn(message, RuntimeWarning, stacklevel=2)
