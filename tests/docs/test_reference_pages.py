"""The reference pages leave nothing out: every registered kind, public name, command and HTTP call has its place."""

import importlib
import inspect
import sys
from importlib import import_module
from pathlib import Path

import pytest

import rankloop
from rankloop.core.registry import categories, entries
from rankloop.training import ClickTraining
from tests.coroutines import run_coroutine
from tests.docs.pages import ROOT

LAST_SUCCESS = 299


@pytest.fixture(scope="module")
def hooks():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        yield importlib.import_module("hooks")
    finally:
        sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def calls(hooks, tmp_path_factory):
    """The OpenAPI document, and the responses to the calls of the page."""
    return run_coroutine(hooks.reference_http.play(tmp_path_factory.mktemp("service")))


def test_every_family_has_a_page_with_all_its_kinds(hooks):
    assert set(hooks.PAGES.values()) == set(categories())
    assert all(f"]({page}.md)" in hooks.overview() for page in (*hooks.PAGES, "packages", "api", "cli", "http"))
    for page, category in hooks.PAGES.items():
        text = hooks.registry_page(page, category)
        assert [entry.kind for entry in entries(category) if f"## `{entry.kind}`\n" not in text] == []


def test_a_docstring_becomes_markdown_and_a_table(hooks):
    text, meanings = hooks.markdown_of(
        "\nIt moves along\n\n  w ← w + x,\n\nas usual.\n\nArgs:\n  rate: The step,\n    in any unit.\n\n"
        "References:\n  A paper.\n\nExamples:\n  >>> 1 + 1\n  2"
    )
    assert "```text\nw ← w + x,\n```\n\nas usual." in text
    assert "**References.** A paper." in text
    assert "```python\n>>> 1 + 1\n2\n```" in text
    assert meanings == {"rate": "The step, in any unit."}


def test_the_comment_behind_a_field_is_its_meaning(hooks):
    meaning_of = importlib.import_module("field_comments").meaning_of
    assert meaning_of("    n_lists: int  # of the log\n") == "Of the log."
    assert meaning_of("    loss: str = ''") == ""
    assert meaning_of("    loss: Any  # type: ignore[misc]") == ""
    fields = inspect.getsource(ClickTraining).partition('"""\n\n')[2].partition("\n\n")[0].splitlines()
    assert all(meaning_of(line) for line in fields)


def test_every_public_name_is_in_the_python_reference(hooks):
    api = hooks.api_page().splitlines()
    assert [name for name in rankloop.__all__ if f"::: rankloop.{name}" not in api] == []
    folder = Path(rankloop.__file__).parent
    public = {
        path.name
        for path in folder.iterdir()
        if (path / "__init__.py").exists() and hasattr(import_module(f"rankloop.{path.name}"), "__all__")
    }
    assert set(hooks.PACKAGES) == public - {"cli"}
    page = hooks.packages_page()
    for name in hooks.PACKAGES:
        assert all(f"::: rankloop.{name}.{member}\n" in page for member in import_module(f"rankloop.{name}").__all__)


def test_every_command_and_option_is_on_the_page_of_commands(hooks):
    page = hooks.reference_cli.page()
    for commands in hooks.reference_cli.commands_by_part().values():
        for name, command in commands.items():
            text = page.partition(f"## {name} {{#{name}}}")[2].partition("\n## ")[0]
            assert "```console\n$ " in text, name
            options = [option for parameter in command.params for option in parameter.opts if option[0] == "-"]
            assert [option for option in options if option not in text] == []


def test_every_call_has_an_example_that_succeeds(hooks, calls):
    document, played = calls
    operations = hooks.reference_http.operations_of(document)
    assert set(played) == set(operations)
    assert {call: response for call, response in played.items() if response.status > LAST_SUCCESS} == {}
    assert {operation["tags"][0] for operation in operations.values()} == set(hooks.reference_http.TAGS)


def test_the_page_of_calls_has_roles_fields_and_curl(hooks):
    page = hooks.reference_http.page()
    rank = page.partition("### `POST /rankers/{name}/rank`")[2].partition("\n### ")[0]
    assert "Role: `rank`" in rank
    assert "`log_propensity`: number" in rank
    assert "curl -X POST localhost:8080/rankers/shop/rank" in rank
    assert "| `window` | number | `1800.0` | seconds after a ranking in which feedback is accepted |" in page


def test_every_page_of_the_documentation_is_in_the_navigation_or_one_step_behind_it(hooks):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    indexes = ("theory/index.md", "decisions/index.md", "results/index.md")
    behind = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in indexes) + hooks.overview()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page.as_posix() not in navigation and f"{page.name})" not in behind] == []
    assert all(f"reference/{page}.md" in navigation for page in ("index", "api", "cli", "http"))
