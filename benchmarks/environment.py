"""The libraries that users would pick instead, and the machine that all sides run on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

import numpy as np

import rankloop

DISTRIBUTIONS = {
    "VowpalWabbit": "vowpalwabbit",
    "river": "river",
    "MABWiser": "mabwiser",
    "scikit-learn": "scikit-learn",
    "LIBLINEAR": "scikit-learn",  # which contains it
    "pytrec_eval": "pytrec-eval-terrier",
    "ranx": "ranx",
    "ir_measures": "ir_measures",
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost-cpu",
}


def installed(peer: str) -> bool:
    return version_of(DISTRIBUTIONS[peer]) is not None


def version_of(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Of rankloop, what it computes with, and every peer; "not installed" where it is missing."""
    ours = {"rankloop": rankloop.__version__, "numpy": version("numpy"), "numba": version("numba")}
    theirs = {peer: version_of(name) or "not installed" for peer, name in DISTRIBUTIONS.items()}
    return ours | theirs | {"LIBLINEAR": "in scikit-learn"}


def machine() -> dict[str, str]:
    """What the times depend on, and nothing that names the machine."""
    return {
        "CPU": cpu_model(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory_bytes() / 2**30:.0f} GB",
        "Python": platform.python_version(),
        "system": platform.system(),
    }


def cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def numpy_extension() -> str:
    """Return the latest vector extension that numpy uses here; NPY_DISABLE_CPU_FEATURES leaves some out."""
    extensions = cast(dict[str, Any], np.show_config(mode="dicts"))["SIMD Extensions"]
    return str([*extensions["baseline"], *extensions.get("found", [])][-1])


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
