"""Reference pages that are made from the code: the registry, the Python API, the command line and the HTTP API."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import import_module
from typing import Any, get_type_hints

import reference_cli
import reference_http

import rankloop
from rankloop.core.registry import Entry, entries

SECTION = re.compile(r"^(Args|Attributes|References|Examples|Returns|Raises|Note|Notes):\s*(.*)$")
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
TITLES = {
    "feedback": "Simulated users and graders",
    "risks": "Losses of batch training",
    "deliveries": "Late and lost feedback",
    "fields": "Kinds of fields",
}
PACKAGES = (
    "features",
    "data",
    "measures",
    "evaluation",
    "interleaving",
    "training",
    "games",
    "bandits",
    "engine",
    "search",
    "contracts",
)
CLIENT_NAMES = ("Client", "AsyncClient")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages; MkDocs calls this before it reads the pages."""
    from mkdocs.structure.files import File

    for name, text in generated_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def generated_pages() -> dict[str, str]:
    """Return every generated page as Markdown, by its path."""
    pages = {f"reference/{page}.md": registry_page(page, category) for page, category in PAGES.items()}
    return pages | {
        "reference/index.md": overview(),
        "reference/api.md": api_page(),
        "reference/packages.md": packages_page(),
        "reference/cli.md": reference_cli.page(),
        "reference/http.md": reference_http.page(),
    }


def registry_page(page: str, category: str) -> str:
    """Return the page of a family of registered kinds.

    Args:
      page: The name of the page.
      category: The category of the registry.
    """
    return "\n".join([f"# {title_of(page)}", "", *map(section, entries(category))])


def title_of(page: str) -> str:
    """Return the title of a page of registered kinds."""
    return TITLES.get(page, page.capitalize())


def overview() -> str:
    """Return the first page of the reference."""
    families = [f"- [{title_of(page)}]({page}.md): {', '.join(f'`{each.kind}`' for each in entries(category))}"
                for page, category in PAGES.items()]  # fmt: skip
    return "\n".join(
        [
            "# Reference",
            "",
            "These pages are made from the code when the site is built.",
            "",
            "- [Command line](cli.md): every command with its options and examples",
            "- [HTTP API](http.md): every call with its role, fields and an example",
            "- [Python API](api.md): the names of `rankloop`, and the client of the service",
            "- [Packages](packages.md): the public names of the packages of `rankloop`",
            *families,
            "",
        ]
    )


def api_page() -> str:
    """Return the page of the names that `import rankloop` offers, and of the client."""
    parts = ["# Python API", *(f"::: rankloop.{name}" for name in sorted(rankloop.__all__))]
    parts += [f"::: rankloop.client.{name}" for name in CLIENT_NAMES]
    return "\n\n".join(parts)


def packages_page() -> str:
    """Return the page of the public names of the packages."""
    parts = ["# Packages"]
    for name in PACKAGES:
        package = import_module(f"rankloop.{name}")
        parts += [f"## `rankloop.{name}`", package.__doc__ or ""]
        parts += [f"::: rankloop.{name}.{member}\n    options: {{heading_level: 3}}" for member in package.__all__]
    return "\n\n".join(parts)


def section(entry: Entry) -> str:
    """Return the part of a page that describes a registered kind."""
    summary, _, body = inspect.cleandoc(entry.cls.__doc__ or "").partition("\n")
    text, meanings = markdown_of(body)
    return "\n".join([f"## `{entry.kind}`", "", f"**{summary}**", "", text, "", *parameters(entry.cls, meanings), ""])


def markdown_of(docstring: str) -> tuple[str, dict[str, str]]:
    """Return a Google docstring as Markdown, and the meanings of its arguments.

    Args:
      docstring: The docstring without its summary.
    """
    blocks: dict[str, list[str]] = {"": []}
    name = ""
    for line in docstring.strip("\n").splitlines():
        if heading := SECTION.match(line):
            name, line = heading[1], f"  {heading[2]}" if heading[2] else ""
        blocks.setdefault(name, []).append(line)
    parts = [fenced_equations(blocks.pop(""))]
    meanings = argument_meanings(blocks.pop("Args", []) + blocks.pop("Attributes", []))
    for title, lines in blocks.items():
        text = inspect.cleandoc("\n".join(["", *lines])).strip()
        parts.append(f"```python\n{text}\n```" if title == "Examples" else f"**{title}.** {text}")
    return "\n\n".join(part for part in parts if part.strip()), meanings


def fenced_equations(lines: list[str]) -> str:
    """Return text whose indented lines, which are equations, are blocks."""
    parts: list[str] = []
    for is_equation, group in _runs(lines):
        text = "\n".join(group).strip("\n")
        parts.append(f"```text\n{inspect.cleandoc(text)}\n```" if is_equation else text)
    return "\n\n".join(part for part in parts if part.strip())


def _runs(lines: list[str]) -> list[tuple[bool, list[str]]]:
    """Group lines into runs that are indented by two spaces or more, and others; lists stay text."""
    runs: list[tuple[bool, list[str]]] = []
    is_list = False
    for line in lines:
        is_list = line.startswith(("- ", "* ")) or (is_list and line.startswith("  "))
        is_equation = line.startswith("  ") and not is_list
        if runs and (not line.strip() or runs[-1][0] == is_equation):
            runs[-1][1].append(line)
        else:
            runs.append((is_equation, [line]))
    return runs


def argument_meanings(lines: list[str]) -> dict[str, str]:
    """Return the descriptions of an `Args:` section by name."""
    meanings: dict[str, str] = {}
    name = ""
    for line in lines:
        if start := re.match(r"^  (\w+): (.*)$", line):
            name = start[1]
            meanings[name] = start[2]
        elif name and line.strip():
            meanings[name] += f" {line.strip()}"
    return meanings


def parameters(cls: Any, meanings: dict[str, str]) -> list[str]:
    """Return the table of the parameters of a registered class.

    Args:
      cls: The class.
      meanings: The descriptions of its parameters; those of its bases are looked up.
    """
    fields = [field for field in dataclasses.fields(cls) if field.init]
    if not fields:
        return ["No parameters."]
    for base in cls.__mro__[1:-1]:
        meanings = markdown_of(inspect.cleandoc(base.__doc__ or "").partition("\n")[2])[1] | meanings
    hints = get_type_hints(cls)
    rows = [
        f"| `{field.name}` | `{type_name(hints[field.name])}` | {default(field)} "
        f"| {meanings.get(field.name, '').replace('|', chr(92) + '|')} |"
        for field in fields
    ]
    return ["| parameter | type | default | meaning |", "|---|---|---|---|", *rows]


def type_name(hint: Any) -> str:
    """Return a type as text, without the names of modules."""
    text = str(hint) if hasattr(hint, "__args__") else getattr(hint, "__name__", str(hint))
    return re.sub(r"\b(?:\w+\.)+", "", text).replace("|", "\\|")


def default(field: Any) -> str:
    """Return the default of a field as Markdown."""
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "–"
    return f"`{field.default!r}`".replace("|", "\\|")
