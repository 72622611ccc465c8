"""Optional dependencies: imported when first used, with one sentence that says how to install them."""

from importlib import import_module
from typing import Any

from rankloop.core.errors import RankloopError

# The extra that installs each optional package.
EXTRA_BY_PACKAGE = {
    "fastapi": "serve",
    "httpx": "serve",
    "lightgbm": "trees",
    "matplotlib": "plots",
    "onnx": "onnx",
    "opentelemetry": "otel",
    "pooch": "data",
    "prometheus_client": "serve",
    "psycopg": "serve",
    "pyarrow": "logs",
    "ray": "cluster",
    "scipy": "batch",
    "sklearn": "data",
    "tantivy": "search",
    "uvicorn": "serve",
}


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
