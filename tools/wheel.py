"""Build the wheel with compiled kernels, one per Python, and the source distribution.

    python tools/wheel.py                     for the running Python
    python tools/wheel.py python3.12 …        for each of these that is installed

The kernels are compiled in an empty environment that has only the wheel, so that a wheel never carries code of a
developer's machine. Files are written to dist/. Needs `pip install build wheel`.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
MIN_GLIBC = "2_28"  # that of numba's own wheels
INDEX_SUFFIX, CODE_SUFFIX = ".nbi", ".nbc"  # of numba's cache: one index per kernel, one file of code per signature


def run(*command: str | Path, environment: dict[str, str] | None = None, folder: Path | None = None) -> None:
    """Run a command and raise if it fails."""
    subprocess.run([str(part) for part in command], check=True, env=environment, cwd=folder)


def build_pure_files() -> Path:
    """Build the source distribution and the wheel without kernels, and return the wheel."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    return next(DIST.glob("*-py3-none-any.whl"))


def empty_environment(python: str, folder: Path, *requirements: str | Path) -> Path:
    """Create a virtual environment with some packages, and return its Python."""
    run(python, "-m", "venv", folder)
    executable = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements)
    return executable


def compile_kernels(python: Path, folder: Path, home: Path) -> None:
    """Compile every kernel with an installed wheel, with an empty home."""
    environment = os.environ | {"HOME": str(home), "NUMBA_CACHE_DIR": str(folder)}
    environment.pop("PYTHONPATH", None)
    for _ in range(2):  # where two processes wrote one index at the same moment, the second run adds what was lost
        run(python, "-m", "rankloop.warm_up", environment=environment, folder=home)


def platform_tag() -> str:
    """Return the tag of machines that the kernels run on."""
    if sys.platform == "linux":
        return f"manylinux_{MIN_GLIBC}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def add_kernels(wheel: Path, kernels: Path, python_tag: str, scratch: Path) -> Path:
    """Write a copy of a wheel that carries kernels, tagged for one Python and platform, and return it."""
    run(sys.executable, "-m", "wheel", "unpack", "--dest", scratch, wheel)
    unpacked = next(path for path in scratch.iterdir() if path.is_dir())
    for path in sorted(kernels.rglob("*")):
        if path.suffix in (INDEX_SUFFIX, CODE_SUFFIX):
            target = unpacked / "rankloop" / "compiled" / path.relative_to(kernels)
            target.parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes()  # `PackagedKernels` reads compressed code
            target.write_bytes(zlib.compress(content, 9) if path.suffix == CODE_SUFFIX else content)
    packed = scratch / "packed"
    packed.mkdir()
    run(sys.executable, "-m", "wheel", "pack", "--dest-dir", packed, unpacked)
    tags = ("--python-tag", python_tag, "--abi-tag", python_tag, "--platform-tag", platform_tag())
    run(sys.executable, "-m", "wheel", "tags", "--remove", *tags, packed / wheel.name)
    return Path(shutil.move(next(packed.glob("*.whl")), DIST))


def build_wheel(pure_wheel: Path, python: str) -> Path:
    """Build the wheel with kernels for one Python."""
    version = "import sys; print('cp%d%d' % sys.version_info[:2])"
    python_tag = subprocess.run([python, "-c", version], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("home", "kernels", "wheel"):
            (folder / part).mkdir()
        executable = empty_environment(python, folder / "environment", pure_wheel)
        compile_kernels(executable, folder / "kernels", folder / "home")
        built = add_kernels(pure_wheel, folder / "kernels", python_tag, folder / "wheel")
    print(f"{built.relative_to(ROOT)}: {built.stat().st_size / 1e6:.1f} MB")
    return built


def main() -> None:
    """Build all files for the Pythons on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="*", default=[sys.executable], help="Pythons to build for")
    wheel = build_pure_files()
    for python in parser.parse_args().python:
        if shutil.which(python):
            build_wheel(wheel, python)
        else:
            print(f"{python} is not installed: no wheel for it")
    (DIST / "pure").mkdir(exist_ok=True)
    wheel.replace(DIST / "pure" / wheel.name)


if __name__ == "__main__":
    main()
