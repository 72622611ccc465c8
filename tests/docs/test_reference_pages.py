"""The reference pages leave nothing out: every family of registered things and every public name has its place."""

import importlib.util
from importlib import import_module
from pathlib import Path

import pytest

import rankloop
from rankloop.core.registry import categories

pytest.importorskip("mkdocs", reason="the documentation site needs mkdocs: pip install 'rankloop[docs]'")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_family_has_a_page_in_the_navigation(hooks):
    assert set(hooks.PAGES.values()) == set(categories())
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"reference/{page}.md" in navigation for page in ("index", "api"))
    assert all(f"]({page}.md)" in hooks.overview() for page in (*hooks.PAGES, "packages"))


def test_every_package_with_public_names_is_referred_to(hooks):
    folder = Path(rankloop.__file__).parent
    public = {
        path.name
        for path in folder.iterdir()
        if (path / "__init__.py").exists() and hasattr(import_module(f"rankloop.{path.name}"), "__all__")
    }
    assert set(hooks.PACKAGES) == public - {"cli"}
    assert set(hooks.BOUNDS) == {path.stem for path in (folder / "bounds").glob("[a-z]*.py")} - {"arguments"}
    page = hooks.packages()
    for name in hooks.PACKAGES:
        assert all(f"::: rankloop.{name}.{member}\n" in page for member in import_module(f"rankloop.{name}").__all__)


def test_every_page_of_the_documentation_is_in_the_navigation_or_one_step_behind_it(hooks):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    behind = (ROOT / "docs" / "theory" / "index.md").read_text(encoding="utf-8") + hooks.overview()
    pages = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if page.as_posix() not in navigation and f"{page.name})" not in behind] == []
