"""Reference pages made from the registry and the docstrings, so that nothing registered can be left out."""

import dataclasses
import inspect
import re
from importlib import import_module
from typing import Any, get_type_hints

from mkdocs.structure.files import File, Files

import rankloop
from rankloop.core.registry import Entry, entries

DOCTEST = re.compile(r"(?:^>>> .*\n(?:(?!$).*\n)*)+", re.MULTILINE)
PAGES = {
    "learners": "learner",
    "measures": "measure",
    "surrogates": "surrogate",
    "risks": "risk",
    "feedback": "feedback",
    "streams": "stream",
    "deliveries": "delivery",
    "interleaving": "interleaving",
    "fields": "field",
}
PACKAGES = (
    "features",
    "data",
    "measures",
    "evaluation",
    "interleaving",
    "batch",
    "games",
    "bandits",
    "engine",
    "contracts",
)
BOUNDS = (
    "fixed_items",
    "perceptrons",
    "kernel_budget",
    "topk_regret",
    "coactive",
    "permutation_invariance",
    "generalisation",
    "generalisation_table",
)


def on_files(files: Files, config: Any) -> Files:
    for page, category in PAGES.items():
        text = "\n".join([f"# {page.capitalize()}", "", *map(section, entries(category))])
        files.append(File.generated(config, f"reference/{page}.md", content=text))
    api = "\n\n".join(["# Python API", *(f"::: rankloop.{name}" for name in rankloop.__all__)])
    files.append(File.generated(config, "reference/api.md", content=api))
    files.append(File.generated(config, "reference/packages.md", content=packages()))
    files.append(File.generated(config, "reference/index.md", content=overview()))
    return files


def overview() -> str:
    """Where everything with a name is described: one page per family, one of the packages."""
    lines = [f"- [{page.capitalize()}]({page}.md): {', '.join(f'`{each.kind}`' for each in entries(category))}"
             for page, category in PAGES.items()]  # fmt: skip
    packages = "- [Packages](packages.md): public names of the packages behind the front door"
    return "\n".join(
        ["# Everything with a name", "", *lines, packages, "- [Licences](../licences.md) of what is installed"]
    )


def packages() -> str:
    """The public names of the packages behind the front door, and the modules of the bounds."""
    parts = ["# Packages"]
    for name in PACKAGES:
        package = import_module(f"rankloop.{name}")
        parts += [f"## `rankloop.{name}`", package.__doc__ or ""]
        parts += [reference(f"rankloop.{name}.{member}") for member in package.__all__]
    parts += ["## `research.bounds`", "What the theory promises, as functions.", *map(bounds_reference, BOUNDS)]
    parts += ["## `rankloop.client`", "The service from Python.", reference("rankloop.client.Client")]
    return "\n\n".join(parts)


def bounds_reference(module: str) -> str:
    return reference(f"research.bounds.{module}")


def reference(name: str) -> str:
    return f"::: {name}\n    options: {{heading_level: 3}}"


def section(entry: Entry) -> str:
    summary, _, rest = inspect.cleandoc(entry.cls.__doc__ or "").partition("\n")
    return "\n".join([f"## `{entry.kind}`", "", f"**{summary}**", "", fenced(rest), "", *parameters(entry.cls), ""])


def fenced(text: str) -> str:
    """Doctests inside a docstring as code blocks; the rest is Markdown already."""
    return DOCTEST.sub(lambda found: f"```python\n{found.group(0)}```\n", text.strip() + "\n")


def parameters(cls: Any) -> list[str]:
    fields = [field for field in dataclasses.fields(cls) if field.init]
    if not fields:
        return ["No parameters."]
    hints = get_type_hints(cls)
    rows = [f"| `{f.name}` | `{type_name(hints[f.name])}` | {default(f)} |" for f in fields]
    return ["| parameter | type | default |", "|---|---|---|", *rows]


def type_name(hint: Any) -> str:
    text = getattr(hint, "__name__", str(hint)) if not hasattr(hint, "__args__") else str(hint)
    for prefix in ("typing.", "rankloop.core.protocols.", "rankloop.core.types."):
        text = text.replace(prefix, "")
    return text.replace("|", "\\|")


def default(field: Any) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "—"
    return f"`{field.default!r}`"
