"""Workflows, issue forms and pre-commit hooks: they parse, run make targets only, and cover the supported Pythons."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
FIELD_TYPES = {"input", "textarea", "dropdown", "checkboxes", "markdown"}


def parsed(path: Path) -> dict:
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def steps(workflow: dict) -> list[dict]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_runs_make_targets_only(path):
    workflow = parsed(path)
    assert set(workflow) == {"name", "on", "permissions", "jobs"}
    assert workflow["permissions"] == {"contents": "read"}
    commands = [step["run"] for step in steps(workflow) if "run" in step]
    assert commands
    assert [command for command in commands if command.removeprefix("make ") not in TARGETS] == []
    for job in workflow["jobs"].values():
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
    assert all(re.fullmatch(r"[\w./-]+@[\w./-]+", step["uses"]) for step in steps(workflow) if "uses" in step)


def test_check_tests_docs_and_release_have_workflows():
    assert [path.stem for path in WORKFLOWS] == ["check", "docs", "release", "test"]


@pytest.mark.parametrize(("name", "job"), [("test", "test"), ("release", "build")])
def test_every_supported_python_is_covered_on_linux_and_macos(name, job):
    matrix = parsed(GITHUB / "workflows" / f"{name}.yml")["jobs"][job]["strategy"]["matrix"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = [text.rpartition(" ")[2] for text in project["classifiers"] if "Python :: 3." in text]
    assert matrix["python-version"] == supported
    assert matrix["os"] == ["ubuntu-latest", "macos-latest"]


def test_a_release_is_published_by_trusted_publishing_on_a_tag():
    workflow = parsed(GITHUB / "workflows" / "release.yml")
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    publish = workflow["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "secrets" not in (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["bug", "wrong-answer", "new-learner"])
def test_an_issue_form_is_complete(form):
    content = parsed(GITHUB / "ISSUE_TEMPLATE" / f"{form}.yml")
    assert {"name", "description", "labels", "body"} <= set(content)
    ids = [field["id"] for field in content["body"]]
    assert len(ids) == len(set(ids))
    for field in content["body"]:
        assert field["type"] in FIELD_TYPES
        assert field["attributes"]["label"]


def test_the_pull_request_template_has_five_lines():
    assert len((GITHUB / "PULL_REQUEST_TEMPLATE.md").read_text(encoding="utf-8").splitlines()) == 5


def test_hooks_run_what_make_check_runs_and_the_lint_of_names():
    (local,) = parsed(ROOT / ".pre-commit-config.yaml")["repos"]
    assert [hook["id"] for hook in local["hooks"]] == ["ruff-format", "ruff", "mypy", "names"]
    names = local["hooks"][-1]["entry"].split()
    assert all((ROOT / word).exists() for word in names if word.startswith("tests/"))
