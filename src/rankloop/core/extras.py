"""Optional dependencies: imported when first used, with one sentence that says how to install them."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

from rankloop.core.errors import RankloopError

_PACKAGES_BY_EXTRA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
EXTRA_BY_PACKAGE = {package: extra for extra, packages in _PACKAGES_BY_EXTRA.items() for package in packages}


class MissingExtra(RankloopError, ImportError):
    """An optional dependency is not installed."""


def import_extra(module: str) -> Any:
    """Import a module of an optional dependency."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] != package:
            raise
        raise MissingExtra(missing_extra_message(package)) from None


def missing_extra_message(package: str) -> str:
    """Return the sentence that says which package is missing and how to install it."""
    extra = EXTRA_BY_PACKAGE.get(package)
    command = f"pip install 'rankloop[{extra}]'" if extra else f"pip install {package}"
    return f"this needs the package {package}, which is not installed: {command}"
