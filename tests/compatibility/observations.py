"""What is looked at: how the files were observed with 0.1 when they were made, and how the tests observe them again.

Only names that users call are used here; the rest is in `processes`. Every observation is plain data, kept as JSON.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
from llvmlite import binding
from tests.compatibility.processes import command, serving

import rankloop

FILES = Path(__file__).parent / "files"
MADE = "made.json"  # with which version, on which kind of CPU
RTOL = 1e-9  # on another kind of CPU sums differ in their last bits
BITS = ("digest", "checked", "differing", "verdicts", "because")  # what tells such bits apart, or prints them
ADDED = {"versions"}  # fields that stand beside those of 0.1
FEEDBACK = {"Clicks": "clicks", "Relevances": "relevances", "Preferred": "preferred", "Reward": "reward"}
ELSEWHERE = "ignore:.* was written on a .* CPU:RuntimeWarning"
OTHER_CODE = "ignore:.* made by other code:RuntimeWarning"


def read(name: str) -> Any:
    """A JSON file of the folder."""
    content = (FILES / name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


def same_cpu() -> bool:
    """Whether this is the kind of CPU that the files were made on, so that all is equal bit for bit."""
    return bool(read(MADE)["cpu"] == binding.get_host_cpu_name())


def copied(name: str, folder: Path) -> Path:
    """A copy of a file or a folder, to be written to."""
    source, target = FILES / name, folder / Path(name).name
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    return target


def assert_same(found: Any, expected: Any, where: str = "it") -> None:
    """Equal bit for bit where the files were made, else up to the last digits of numbers."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{where}: {found!r:.200} instead of a table"
        assert set(found) - ADDED == set(expected), f"{where} has other fields: {set(found) ^ set(expected)}"
        for name, value in expected.items():
            if name not in BITS or same_cpu():
                assert_same(found[name], value, f"{where}.{name}")
    elif isinstance(expected, list):
        assert isinstance(found, list), f"{where}: {found!r:.200} instead of a list"
        assert len(found) == len(expected), f"{where}: {len(found)} entries instead of {len(expected)}"
        for i, (one, other) in enumerate(zip(found, expected)):
            assert_same(one, other, f"{where}[{i}]")
    elif isinstance(expected, float) and (not same_cpu() or where.endswith(".p_value")):  # by another function now
        assert isinstance(found, float), f"{where}: {found!r:.200} instead of {expected!r}"
        assert math.isclose(found, expected, rel_tol=RTOL, abs_tol=RTOL), f"{where}: {found!r} instead of {expected!r}"
    else:
        assert type(found) is type(expected), f"{where}: {found!r:.200} instead of {expected!r:.200}"
        assert found == expected, f"{where}: {found!r:.200} instead of {expected!r:.200}"


def plain(value: Any) -> Any:
    """A state, or any part of one, as JSON has it."""
    if hasattr(value, "_fields"):
        return {name: plain(part) for name, part in zip(value._fields, value)}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def state_of(session: rankloop.Session) -> dict[str, Any]:
    """All that a session has learned and counted."""
    return {"state": plain(session.state), "learned": session.learned, "refused": session.refused}


def settings_of(session: rankloop.Session) -> dict[str, Any]:
    """What a session was made with."""
    return {
        "learner": rankloop.spec_of(session.learner),
        "problem": {name: plain(value) for name, value in session.problem.to_plain().items()},
        "seed": session.seed,
    }


def feed(ranker: rankloop.Ranker, shown: rankloop.Shown, answer: dict[str, Any]) -> None:
    """Learn from an answer as JSON has it: [item, value] pairs where a table would lose that ids are numbers."""
    ((kind, value),) = answer.items()
    ranker.learn(shown, **{kind: dict(map(tuple, value)) if kind in ("clicks", "relevances") else value})


def gone_on(path: Path, late: list[Any], rounds: list[Any]) -> dict[str, Any]:
    """What a saved ranker does next: it learns from what was shown before it was saved, then ranks and learns on."""
    ranker = rankloop.Ranker.load(path)
    found: dict[str, Any] = {"loaded": state_of(ranker.session) | {"missing": ranker.missing}, "rounds": []}
    found["names"] = {"features": ranker.features, "items": ranker.items, "context": ranker.context}
    for text, answers in late:
        for answer in answers:
            feed(ranker, rankloop.Shown.from_json(text), answer)
    found["late"] = state_of(ranker.session)
    for question, answers in rounds:
        shown = ranker.rank(**question)
        found["rounds"].append({"ids": shown.ids, "log_propensity": shown.log_propensity})
        for answer in answers:
            feed(ranker, shown, answer)
    found["end"] = state_of(ranker.session)
    return found


def answered(client: httpx.Client, call: dict[str, Any]) -> dict[str, Any]:
    """What a service answers to a call; one whose `until_known` is set is repeated until no comparison is shown."""
    content = (FILES / call["file"]).read_bytes() if "file" in call else None
    for turn in range(100):
        key = (
            {"Idempotency-Key": f"{call['key']}-{turn}" if "until_known" in call else call["key"]}
            if "key" in call
            else {}
        )
        told = {"content": content} if content is not None else {"json": call["json"]} if "json" in call else {}
        response = client.request(call["method"], call["path"], headers=key, **told)
        answer = {"status": response.status_code, "body": _body(response)}
        if "until_known" not in call:
            return answer
        if answer["body"]["log_propensity"] is not None:
            answer["body"].pop("impression")
            return answer
    raise AssertionError("every ranking was a comparison")


def _body(response: httpx.Response) -> Any:
    if "json" in response.headers.get("content-type", ""):
        return response.json()
    return response.text


def reports(client: httpx.Client) -> dict[str, Any]:
    """All that a service tells of its rankers and experiments, with the states that can be downloaded."""
    rankers = client.get("/rankers").json()["rankers"]
    found: dict[str, Any] = {"rankers": {}, "experiments": client.get("/experiments").json()["experiments"]}
    for report in rankers:
        path = f"/rankers/{report['name']}"
        one = client.get(path).json()
        assert one == report
        snapshots = client.get(f"{path}/snapshots").json()["snapshots"]
        found["rankers"][report["name"]] = {
            "report": one,
            "snapshots": [[row["state"], row["seq"]] for row in snapshots],
            "state": _downloaded(client.get(f"{path}/state").content),
        }
    return found


def _downloaded(content: bytes) -> dict[str, Any]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.rankloop"
        path.write_bytes(content)
        session = rankloop.load(path)
    return settings_of(session) | state_of(session)


def exports(client: httpx.Client, streams: dict[str, str], open_ones: list[str]) -> dict[str, Any]:
    """The log of each stream, as JSON lines and as rows of Parquet; the times of open impressions were moved."""
    found = {}
    for name, of in streams.items():
        lines = [json.loads(line) for line in client.get(f"/log/{name}.jsonl?of={of}").text.splitlines()]
        for line in lines:
            if line.get("impression") in open_ones:
                line.pop("at")
        table = pq.read_table(io.BytesIO(client.get(f"/log/{name}.parquet?of={of}").content))
        found[name] = {"lines": lines, "columns": list(map(str, table.schema)), "rows": table.to_pylist()}
    return found


def replayed(log: str, *more: str) -> dict[str, Any]:
    """What `rankloop replay` says."""
    code, out = command("replay", log, *more, "--json")
    assert code == 0 or not same_cpu(), out
    return {"rankers": json.loads(out)}


def reopened(data: Path, open_ones: list[str]) -> None:
    """Let the windows of these impressions begin now: else a test would find them closed, some weeks after."""
    with closing(sqlite3.connect(data / "rankloop.db")) as connection, connection:
        for impression in open_ones:
            connection.execute("UPDATE events SET at = ? WHERE impression = ?", (time.time(), impression))


def served(data: Path, store: str, told: dict[str, Any]) -> dict[str, Any]:
    """A service that starts on this log: what it tells, what it answers, and the same after another start."""
    found: dict[str, Any] = {}
    where = [store or str(data), "--data", str(data)]
    found["replayed"] = replayed(*where)
    with serving(data, store) as client:
        found["reports"] = reports(client)
        found["exports"] = exports(client, told["streams"], told["open"])
        found["answers"] = [answered(client, call) for call in told["calls"]]
        found["after"] = reports(client)
        for one in found["after"]["rankers"].values():
            one.pop("snapshots")  # the newest may be on its way
    found["replayed after"] = replayed(*where)
    with serving(data, store) as client:
        found["restarted states"] = {name: one["state"] for name, one in reports(client)["rankers"].items()}
        found["restarted"] = [answered(client, call) for call in told["restarted"]]
    return found


def rebuilt(address: str, open_ones: list[str]) -> None:
    """The tables of the PostgreSQL log, made and filled as they were; the windows of open impressions begin now."""
    import psycopg

    kept = json.loads(gzip.decompress((FILES / "postgres" / "tables.json.gz").read_bytes()))
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in kept["statements"]:
            connection.execute(statement)
        for table, rows in kept["rows"].items():
            for row in rows:
                cells = [base64.b64decode(cell["base64"]) if isinstance(cell, dict) else cell for cell in row]
                connection.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(cells))})", cells)
        moved = "UPDATE rankloop_events SET at = %s WHERE impression = %s"
        for impression in open_ones:
            connection.execute(moved, [time.time(), impression])


def ran(*arguments: str) -> Any:
    """The JSON that a command prints, without times and places."""
    more = ["--engine", "here"] if arguments[0] in ("run", "reproduce") else []
    code, out = command(*arguments, *more, "--json")
    assert code == 0, out
    return _timeless(json.loads(out))


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        dropped = ("report", "seconds", "time", "version", "rankloop", "model", "code")
        return {name: _timeless(part) for name, part in value.items() if name not in dropped}
    return [_timeless(part) for part in value] if isinstance(value, list) else value


def trained(out: Path, data: Path) -> dict[str, Any]:
    """What is trained anew from the logs and grades: what the commands say, and the models that they save."""
    told = {
        "ads": ran("evaluate", "--log", str(data / "ads.csv"), "--save", str(out / "ads.rankloop"), "--epsilon", "0.1"),
        "clicks": ran("train", "--log", str(data / "clicks.csv"), "--out", str(out / "clicks")),
        "grades": ran("train", str(data / "grades.txt"), "--folds", "3", "--out", str(out / "grades")),
    }
    files = {"ads": out / "ads.rankloop"} | {name: out / name / "model.rankloop" for name in ("clicks", "grades")}
    models = {name: state_of(rankloop.load(path)) for name, path in files.items()}
    return {"told": told, "models": models, "beside": json.loads((out / "ads.rankloop.json").read_text("utf-8"))}


def judged(data: Path) -> dict[str, Any]:
    """What `rankloop evaluate` says of the saved models."""
    return {
        "policy": ran("evaluate", str(data / "ads.rankloop"), "--log", str(data / "ads.csv")),
        "robust": ran(
            "evaluate", str(data / "ads.rankloop"), "--log", str(data / "ads.csv"), "--method", "doubly_robust"
        ),
        "grades": ran("evaluate", str(data / "grades.rankloop"), str(data / "grades.txt"), "--per-query"),
    }


def judged_logs(files: Path) -> dict[str, Any]:
    """What `rankloop evaluate` says of a saved ranker, by an export and by the folder of a service."""
    best, export, folder = (
        str(files / name) for name in ("commands/best.rankloop", "archive/pages.parquet", "archive/data")
    )
    found = {"export": ran("evaluate", best, "--log", export, "--method", "snips")}  # the default of 0.1
    for method in ("ips", "cascade", "position_wise"):
        found[method] = ran("evaluate", best, "--log", folder, "--ranker", "pages", "--method", method)
    return found


def runs_in(folder: Path) -> list[Any]:
    """The finished runs of a results folder, by what they are of; without times."""
    lines = (folder / "runs.jsonl").read_text("utf-8").splitlines()
    return sorted(
        (_timeless(json.loads(line)) for line in lines), key=lambda run: (run["stream"], run["arm"], run["seed"])
    )


def tasks_in(folder: Path) -> list[Any]:
    """The finished tasks of a reproduction and their results."""
    lines = (folder / "tasks.jsonl").read_text("utf-8").splitlines()
    return [[line["task"], line["result"]] for line in map(json.loads, lines)]
