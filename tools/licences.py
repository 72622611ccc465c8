"""The licences of what rankloop and its extras install, as a page: python tools/licences.py > LICENCES.md.

It reads the metadata of installed packages, so run it where all extras are installed; it stops if one is missing.
"""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
FOR_OTHERS = {"test", "bench", "docs", "all"}  # extras of developers, and the one that brings the others
MAX_LICENCE_LETTERS = 60  # characters; some packages put the whole text there


def licence_of(name: str) -> str:
    """Return the licence of a package: its expression, its classifier, or its text."""
    said = metadata(name)
    classifiers = [part.split(" :: ")[-1] for part in said.get_all("Classifier") or () if part.startswith("License ::")]
    words = (said.get("License") or "").strip().splitlines()
    return (
        said.get("License-Expression")
        or ", ".join(classifiers)
        or (words[0][:MAX_LICENCE_LETTERS] if words else "not said")
    )


def direct_names(extra: str) -> set[str]:
    """Return the packages that an extra itself names."""
    extras = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return {normal_name(Requirement(text).name) for text in extras[extra]}


def normal_name(name: str) -> str:
    """Return the name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(texts: list[str], licences: dict[str, set[str]], by: str) -> None:
    """Add packages, and all that they need here, under the name of who brings them."""
    for text in texts:
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        name = normal_name(requirement.name)
        try:
            inner = requires(name) or []
        except PackageNotFoundError:
            if by == "always" or name in direct_names(by.strip("[]")):
                raise SystemExit(f"{name} is not installed: pip install '.[all]'") from None
            continue
        if by in licences.setdefault(name, set()):
            continue
        licences[name].add(by)
        requirements = [
            part for part in inner if any(f"extra == '{e}'" in part.replace('"', "'") for e in requirement.extras)
        ]
        needed(
            [part for part in inner if "extra ==" not in part] + [part.split(";")[0] for part in requirements],
            licences,
            by,
        )


def main() -> None:
    """Print the licences of all dependencies."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    licences: dict[str, set[str]] = {}
    needed(project["dependencies"], licences, "always")
    for extra, texts in project["optional-dependencies"].items():
        if extra not in FOR_OTHERS:
            needed(texts, licences, f"[{extra}]")
    licences.pop("rankloop", None)  # some extras bring another one
    print("# Licences\n\nrankloop is under the MIT licence. It installs, and never copies, these packages:\n")
    print("| package | licence, in its own words | comes with |\n|---|---|---|")
    for name, by in sorted(licences.items()):
        brought = "always" if "always" in by else ", ".join(f"`{extra}`" for extra in sorted(by))
        print(f"| {name} | {licence_of(name).replace('|', '/')} | {brought} |")


if __name__ == "__main__":
    main()
