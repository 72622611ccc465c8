"""Import modules outside the package that register learners and more, in this process and in workers.

Importing runs the module's code, so names come from the owner of the experiment: a file, the command line, Python.
"""

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.files import PACKAGE_FOLDER, source_key
from rankloop.core.registry import entries


class Module(NamedTuple):
    """Name of a module, and the folder in which Python finds it ("" if it has none)."""

    name: str
    folder: str


def import_modules(imports: Iterable[str], folder: Path = Path()) -> None:
    """Import modules.

    Args:
      imports: Names of modules on Python's path or in `folder`, or paths of .py files relative to `folder`.
      folder: The folder.
    """
    for entry in imports:
        name, file = _find_module(entry, folder)
        if file is not None:
            _look_in(str(file.parent if file.name != "__init__.py" else file.parents[1]))
            top = name.partition(".")[0]
            imported_file = _file_of(top)
            if imported_file is not None and Path(imported_file).resolve() != file:
                raise InvalidInput(f"Python already has a module {top!r}, {imported_file}: rename {file}")
        _import(name, f", neither on Python's path nor in {folder.resolve()}: check the name")


def import_on_worker(modules: Iterable[Module]) -> None:
    """Import in a worker the modules that the planning process imported."""
    for module in modules:
        _look_in(module.folder)
        _import(module.name, f" on this worker: make {module.folder or 'the module'} available there")


def modules_of(imports: Iterable[str]) -> tuple[Module, ...]:
    """Return the names and folders of the imported modules, for workers."""
    modules = []
    for name in map(_name, imports):
        _import(name, ", neither imported nor on Python's path")
        top = name.partition(".")[0]
        file, is_package = _file_of(top), hasattr(sys.modules[top], "__path__")
        modules.append(Module(name, "" if file is None else str(Path(file).resolve().parents[int(is_package)])))
    return tuple(modules)


def code_key(imports: Iterable[str]) -> str:
    """Return a hash of the package and the imported modules: results belong to the code that made them."""
    contents = [Path(file).read_bytes() for file in map(_file_of, map(_name, imports)) if file]
    return source_key() + (f"+{hashlib.sha256(b''.join(contents)).hexdigest()[:12]}" if contents else "")


def _name(entry: str) -> str:
    return Path(entry).stem if entry.endswith(".py") else entry


def _find_module(entry: str, folder: Path) -> tuple[str, Path | None]:
    """Return the module's name, and its file if it lies in the folder."""
    if entry.endswith(".py"):
        file = (folder / entry).resolve()
        if not file.is_file():
            raise NotFound(f"there is no file {file}")
        return file.stem, file
    if not all(part.isidentifier() for part in entry.split(".")):
        raise InvalidInput(f"{entry!r} is neither a module name nor a .py file")
    top = folder.resolve() / entry.partition(".")[0]
    beside = (top.with_name(f"{top.name}.py"), top / "__init__.py")
    return entry, next((file for file in beside if file.is_file()), None)


def _look_in(folder: str) -> None:
    """Append a folder to Python's path; it stays there because modules may import their neighbours later."""
    if folder and folder not in sys.path:
        sys.path.append(folder)
    importlib.invalidate_caches()


def _import(name: str, missing: str) -> None:
    """Import a module; an error of its code names the line in which it occurred."""
    entries()  # registers ours first, so that a duplicate kind is reported in the imported module
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            raise NotFound(f"there is no module {error.name!r}{missing}") from None
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidInput(f"{name} cannot be imported: {type(error).__name__}: {message}{place_of(error)}") from error


def place_of(error: BaseException) -> str:
    """Return the last line outside the package that an error passed, in brackets; empty if it passed none."""
    ours = ("<", str(PACKAGE_FOLDER), importlib.__path__[0])
    frames = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    theirs = [frame for frame in frames if not frame[0].startswith(ours)]
    if isinstance(error, SyntaxError):
        theirs = [(error.filename or "", error.lineno)]
    return f" ({Path(theirs[-1][0]).name}, line {theirs[-1][1]})" if theirs else ""


def _file_of(name: str) -> str | None:
    if name in sys.modules:
        return getattr(sys.modules[name], "__file__", None)
    spec = importlib.util.find_spec(name)
    return spec.origin if spec is not None else None
