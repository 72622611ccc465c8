"""Optional dependencies that are absent are named with the command that installs them."""

import sys

import pytest

from rankloop.core.extras import EXTRA_BY_PACKAGE, MissingExtra, import_extra


def test_an_installed_module_is_imported() -> None:
    assert import_extra("json.decoder").JSONDecoder is not None


@pytest.mark.parametrize("package", ["pyarrow", "scipy", "matplotlib"])
def test_a_missing_package_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'rankloop\[{EXTRA_BY_PACKAGE[package]}\]'"):
        import_extra(package)


def test_a_missing_package_without_an_extra_is_named() -> None:
    with pytest.raises(MissingExtra, match="pip install no_such_package"):
        import_extra("no_such_package.part")
