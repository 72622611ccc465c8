"""The files of deploy/: what they would run is run, what they probe answers, and what they draw is measured."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
ENDS = r"_(total|bucket|created|count|sum)$"
KEYS = "rank:ranks-a-lot,admin:may-do-all"
yaml = pytest.importorskip("yaml")


def read_yaml(name: str) -> Any:
    return list(yaml.safe_load_all((DEPLOY / name).read_text()))


def from_dockerfile(word: str) -> list[str]:
    found = re.findall(rf"^{word} (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    return list(json.loads(found[-1]))


def container() -> Any:
    return read_yaml("kubernetes.yaml")[0]["spec"]["template"]["spec"]["containers"][0]


def unit(name: str = "rankloop.service") -> list[str]:
    (line,) = re.findall(r"^ExecStart=(.*)$", (DEPLOY / name).read_text(), re.MULTILINE)
    return shlex.split(line)


def commands() -> dict[str, list[str]]:
    """What each file has rankloop do."""
    return {
        "Dockerfile": from_dockerfile("CMD"),
        "compose.yaml": read_yaml("compose.yaml")[0]["services"]["rankloop"]["command"],
        "kubernetes.yaml": container()["args"],
        "rankloop.service": unit()[1:],
    }


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The command of the image, on another port and in another folder."""
    folder = tmp_path_factory.mktemp("data")
    command = [part.replace("8080", "0") if part == "8080" else part for part in commands()["Dockerfile"]]
    command = [str(folder) if part == "/data" else part for part in command]
    environment = os.environ | {"RANKLOOP_KEYS": KEYS, "RANKLOOP_STORE": ""}
    log = folder / "stderr"
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-m", "rankloop", *command], stderr=stderr, env=environment)
    try:
        while process.poll() is None and not (found := re.search(r"running on http://[^:]+:(\d+)", log.read_text())):
            time.sleep(0.02)
        assert process.poll() is None, log.read_text()
        assert found is not None
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.wait(60)


def test_every_command_is_one_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    from rankloop.cli import main

    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    known = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    for file, command in commands().items():
        assert command[0] == "serve", file
        assert {part for part in command if part.startswith("--")} <= known, file
    assert from_dockerfile("ENTRYPOINT") == ["rankloop"]
    assert Path(unit()[0]).name == "rankloop"
    with pytest.raises(SystemExit):
        main([*unit("rankloop-learn.service")[1:], "--help"])
    assert "Learn for workers" in capsys.readouterr().out


def test_probes_answer_without_a_key(address: str) -> None:
    probes = [container()[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")]
    health = re.search(r"8080(/\w+)'", (DEPLOY / "Dockerfile").read_text())
    assert health is not None
    for path in {*probes, health[1]}:
        assert httpx.get(address + path, timeout=30).status_code == 200


def test_what_the_dashboard_draws_is_measured(address: str) -> None:
    scraped = read_yaml("prometheus.yaml")[0]["scrape_configs"][0]
    key = {"Authorization": f"{scraped['authorization']['type']} {KEYS.rpartition(':')[2]}"}
    body = {"learner": "fair_pairs", "problem": {"feature_names": ["a"]}}
    items = [{"id": "x", "features": {"a": 1}}, {"id": "y", "features": {"a": 2}}]
    with httpx.Client(base_url=address, headers=key, timeout=30) as client:
        assert client.put("/rankers/shop", json=body).is_success
        assert client.post("/rankers/shop/rank", json={"items": items}).is_success
        text = client.get(scraped["metrics_path"]).text
    measured = set(re.findall(r"^(?:# TYPE )?(rankloop_\w+)(?:\{| )", text, re.MULTILINE))
    panels = json.loads((DEPLOY / "grafana/dashboards/rankloop.json").read_text())["panels"]
    drawn = {name for panel in panels for target in panel["targets"] for name in metrics_in(target["expr"])}
    assert drawn - measured == set()
    shown, all_of_it = ({re.sub(ENDS, "", name) for name in names} for names in (drawn, measured))
    assert all_of_it - shown == set()  # whoever adds a number adds a panel
    assert httpx.get(address + "/metrics", timeout=30).status_code == 401


def metrics_in(expression: str) -> list[str]:
    return re.findall(r"\brankloop_\w+", expression)


def test_the_parts_of_the_composition_find_each_other() -> None:
    (composed,) = read_yaml("compose.yaml")
    services = composed["services"]
    target = read_yaml("prometheus.yaml")[0]["scrape_configs"][0]["static_configs"][0]["targets"][0]
    assert target.split(":")[0] in services
    store = services["rankloop"]["environment"]["RANKLOOP_STORE"]
    where = re.search(r"@(\w+)/(\w+)$", store)
    assert where is not None
    assert services[where[1]]["environment"]["POSTGRES_DB"] == where[2]
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    assert source["url"].split("//")[1].split(":")[0] in services
    panels = json.loads((DEPLOY / "grafana/dashboards/rankloop.json").read_text())["panels"]
    assert {panel["datasource"]["uid"] for panel in panels} == {source["uid"]}
    for mounted in (*services["prometheus"]["volumes"], *services["grafana"]["volumes"]):
        if mounted.startswith("./"):
            assert (DEPLOY / mounted.split(":")[0]).exists()
    for copied in re.findall(r"^COPY (?!--from=)(.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE):
        assert all((DEPLOY.parent / part).exists() for part in copied.split())
