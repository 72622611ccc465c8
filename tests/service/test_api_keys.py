"""Keys: hashed, several per role, limited to rankers, read again while the service runs; every refusal is counted."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.service import api_keys as keys_module
from rankloop.service.api_keys import Grant, Keyring, grants_in, hash_of, new_key, read_line
from rankloop.service.settings import Settings, keys_from
from tests.service.cases import SHOP, Location, items, running, until
from tests.service.processes import serving


def grant_of(keyring: Keyring, key: str) -> Grant | None:
    """What a key allows, as the middleware looks it up."""
    keyring.refresh()
    return keyring.grants.get(hash_of(key))


def test_a_line_holds_the_hash_and_not_the_key() -> None:
    key = new_key()
    line = Grant("rank", "", ("shop-*", "blog"), 12.5).line(key)
    assert key not in line
    assert line == f"rank:sha256-{hashlib.sha256(key.encode()).hexdigest()}:shop-*|blog:12.5"
    hashed, grant = read_line(line)
    assert (hashed, grant) == (hash_of(key), Grant("rank", hashed[7:15], ("shop-*", "blog"), 12.5))
    assert [grant.reaches(name) for name in ("shop-1", "blog", "blog-1", "", "shop")] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_keys_as_they_are_may_hold_anything() -> None:
    keyring = Keyring(keys_from("rank:ranking-key, admin:with:colons:in-it,admin:ranking-key"))
    assert grant_of(keyring, "ranking-key").role == "admin"  # type: ignore[union-attr]
    assert grant_of(keyring, "with:colons:in-it").rankers == ()  # type: ignore[union-attr]
    assert grant_of(keyring, "") is None
    assert grant_of(keyring, hash_of("ranking-key")) is None  # whoever has read the hash cannot call
    assert not Keyring().is_needed


HASH = hash_of("some-key-or-other")


@pytest.mark.parametrize(
    "line",
    [
        "cook:long-enough",
        "rank:short",
        f"rank:{HASH}:a b",
        f"rank:{HASH}:a:fast",
        f"rank:{HASH}:a:-1",
        f"rank:{HASH}:a:1:2:3:4",
    ],
)
def test_what_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(InvalidInput):
        read_line(line)


def test_a_file_has_hashes_and_says_where_it_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    good = Grant("rank", "").line("a-key-of-some-length")
    file.write_text(f"# who\n\n{good}   # the shop\n")
    assert list(grants_in(file)) == [hash_of("a-key-of-some-length")]
    for wrong in ("rank:a-plain-key", good, "cook:" + good[5:]):
        file.write_text(f"{good}\n{wrong}\n")
        with pytest.raises(InvalidInput, match="line 2"):
            Settings(keys_file=file)
    with pytest.raises(InvalidInput, match="cannot be read"):
        Settings(keys_file=tmp_path / "nowhere")


def test_a_file_is_read_again_when_it_changes_and_never_opens_the_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys_module, "CHECK_SECONDS", -1.0)
    file = tmp_path / "keys"
    file.write_text(Grant("rank", "").line("first-key"))
    keyring = Keyring((), file)
    assert grant_of(keyring, "first-key") is not None
    file.write_text(Grant("admin", "").line("second-key"))
    assert grant_of(keyring, "first-key") is None
    assert grant_of(keyring, "second-key") is not None
    file.write_text("nonsense")
    assert grant_of(keyring, "second-key") is not None  # what cannot be read changes nothing
    file.unlink()
    assert grant_of(keyring, "second-key") is not None
    file.write_text("# all gone\n")
    assert grant_of(keyring, "second-key") is None
    assert keyring.is_needed


def test_a_key_is_for_the_rankers_of_its_pattern(tmp_path: Path) -> None:
    rank, admin, all_of_it = new_key(), new_key(), new_key()
    file = tmp_path / "keys"
    file.write_text("\n".join([Grant("rank", "", ("shop-*",)).line(rank), Grant("admin", "", ("shop-*",)).line(admin)]))
    given = (("admin", hash_of(all_of_it)),)
    with running(Location(tmp_path), keys=given, keys_file=file) as client:

        def status(key: str, method: str, path: str, body: object = None) -> int:
            return client.request(method, path, json=body, headers={"Authorization": f"Bearer {key}"}).status_code

        for name in ("shop-1", "blog"):
            assert status(all_of_it, "PUT", f"/rankers/{name}", SHOP) == 201
        ranking = {"items": items()}
        assert status(rank, "POST", "/rankers/shop-1/rank", ranking) == 200
        assert status(rank, "POST", "/rankers/blog/rank", ranking) == 403
        assert status(admin, "GET", "/rankers/shop-1") == 200
        assert status(admin, "PUT", "/rankers/shop-2", SHOP) == 201
        assert status(admin, "GET", "/log/shop-1.jsonl") == 200
        one = {"a": {"ranker": "shop-1"}, "b": {"ranker": "blog"}}
        beyond = [
            ("GET", "/rankers", None),
            ("GET", "/metrics", None),
            ("GET", "/log/blog.jsonl", None),
            ("GET", "/log/blog?format=ubi", None),
            ("PUT", "/rankers/blog-2", SHOP),
            ("POST", "/rankers/shop-1/clone", {"name": "blog-2"}),
            ("PUT", "/experiments/shop-or-blog", one),
            ("PUT", "/rankers/shop-3", SHOP | {"problem": {"schema": {"features": {"a": "number"}}, "catalogue": "b"}}),
        ]
        assert [status(admin, *call) for call in beyond] == [403] * len(beyond)
        assert status(rank, "GET", "/rankers/shop-1") == 403
        assert status("made-up", "GET", "/rankers/shop-1") == 401
        assert client.get("/rankers").status_code == 401
        metrics = client.get("/metrics", headers={"Authorization": f"Bearer {all_of_it}"}).text
        for reason, count in (("ranker", 9), ("role", 1), ("unknown-key", 1), ("no-key", 1)):
            assert f'rankloop_refused_calls_total{{reason="{reason}",worker="0"}} {count}.0' in metrics


@pytest.mark.parametrize(
    "file",
    ["shop.private?%66ormat=ubi", "shop%2Eprivate?format=ubi", "shop.private?format=&format=ubi", "shop.private.ubi"],
)
def test_an_escaped_parameter_does_not_lead_to_the_log_of_another(tmp_path: Path, file: str) -> None:
    admin, all_of_it = new_key(), new_key()
    keys_file = tmp_path / "keys"
    keys_file.write_text(Grant("admin", "", ("shop",)).line(admin))
    with running(Location(tmp_path), keys=(("admin", hash_of(all_of_it)),), keys_file=keys_file) as client:
        for name in ("shop", "shop.private"):
            headers = {"Authorization": f"Bearer {all_of_it}"}
            client.put(f"/rankers/{name}", json=SHOP, headers=headers).raise_for_status()
        headers = {"Authorization": f"Bearer {admin}"}
        assert client.get("/log/shop?%66ormat=ubi", headers=headers).status_code == 200
        assert client.get(f"/log/{file}", headers=headers).status_code == 403


def test_a_key_may_have_a_rate_of_its_own(tmp_path: Path) -> None:
    slow, quick = new_key(), new_key()
    lines = [Grant("rank", "", rate=0.001).line(slow), Grant("rank", "").line(quick)]
    keys = tuple((role, key) for role, _, key in (line.partition(":") for line in lines))
    with running(Location(tmp_path), keys=keys) as client:

        def statuses(key: str) -> list[int]:
            headers = {"Authorization": f"Bearer {key}"}
            return [client.get("/healthz", headers=headers).status_code for _ in range(3)]

        assert statuses(slow) == [200, 429, 429]
        assert statuses(quick) == [200, 200, 200]


@pytest.mark.parametrize("given", ["checkout-17:3", "x" * 128])
def test_a_request_has_the_id_of_its_caller(tmp_path: Path, given: str) -> None:
    with running(Location(tmp_path)) as client:
        for path, expected in (("/healthz", 200), ("/nowhere", 404)):
            answer = client.get(path, headers={"X-Request-Id": given})
            assert (answer.status_code, answer.headers["x-request-id"]) == (expected, given)
        made = {
            client.get("/healthz", headers={"X-Request-Id": bad}).headers["x-request-id"]
            for bad in ("", "a b", "x" * 129)
        }
        assert len(made) == 3
        assert all(len(name) == 16 for name in made)


def test_keys_change_while_it_runs_and_the_log_names_key_and_request(tmp_path: Path) -> None:
    """A real process: SIGHUP reads the file at once, and does not end it."""
    file = tmp_path / "keys"
    first, second = new_key(), new_key()
    file.write_text(Grant("admin", "").line(first))
    process, port = serving(Location(tmp_path), "--keys", str(file))
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:

            def status(key: str) -> int:
                headers = {"Authorization": f"Bearer {key}", "X-Request-Id": "mine"}
                return client.get("/rankers/nobody", headers=headers).status_code

            assert (status(first), status(second)) == (404, 401)
            file.write_text(Grant("admin", "").line(second))
            os.kill(process.pid, signal.SIGHUP)
            until(lambda: (status(first), status(second)) == (401, 404))
    finally:
        process.terminate()
        assert process.wait(30) == 0
    (log,) = tmp_path.glob("stderr-*")
    assert f'"request": "mine", "key": "{hash_of(second)[7:15]}"' in log.read_text()
    assert second not in log.read_text()


def test_a_line_has_the_quota_of_a_day() -> None:
    line = Grant("rank", "", ("shop",), None, 1000, 5e9).line("a-long-enough-key")
    _, grant = read_line(line)
    assert (grant.rate, grant.calls_per_day, grant.bytes_per_day) == (None, 1000.0, 5e9)
    for wrong in ("shop::x", "shop::0", "shop:::-1", "shop::::1"):
        with pytest.raises(InvalidInput):
            read_line(f"rank:{hash_of('a-long-enough-key')}:{wrong}")


@pytest.mark.parametrize(("limits", "n_calls"), [((3, None), 3), ((None, 1000), 5)])
def test_a_key_beyond_its_quota_is_refused_until_the_next_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: tuple[int | None, int | None], n_calls: int
) -> None:
    lines = [
        Grant("admin", "").line("the-key-of-the-owner"),
        Grant("rank", "", (), None, *limits).line("the-key-of-a-page"),
    ]
    keys = tuple((role, key) for role, _, key in (line.partition(":") for line in lines))
    with running(Location(tmp_path), keys=keys) as client:
        owner = {"Authorization": "Bearer the-key-of-the-owner"}
        client.put("/rankers/shop", json=SHOP, headers=owner).raise_for_status()
        page = {"Authorization": "Bearer the-key-of-a-page"}
        body = {"items": items(3), "tags": {"padding": "x" * 20}}
        size = len(client.build_request("POST", "/", json=body).content)
        sent = [client.post("/rankers/shop/rank", json=body, headers=page).status_code for _ in range(8)]
        allowed = n_calls if limits[0] else 1000 // size
        assert sent == [200] * allowed + [429] * (8 - allowed)
        assert client.get("/rankers/shop", headers=owner).status_code == 200
        clock = time.time
        monkeypatch.setattr("rankloop.service.http.keys_and_limits.time.time", lambda: clock() + 86_400)
        assert client.post("/rankers/shop/rank", json=body, headers=page).status_code == 200
        assert 'reason="key-quota"' in client.get("/metrics", headers=owner).text
