"""Pages elsewhere: allowed origins may search, others may not; beacons teach."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.local_engine import LocalEngine
from rankloop.search.routes import PAGE_FOLDER, SearchPage
from rankloop.search.sources import FolderSource
from rankloop.service.http.cross_origin import check_origins
from tests.search.boxes import write_notes
from tests.service.cases import UNENCRYPTED
from tests.service.page.server import page_server

SHOP = {"Origin": "https://shop.example"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    write_notes(tmp_path / "notes")
    engine = LocalEngine(tmp_path / "data")
    page = SearchPage(engine, FolderSource(tmp_path / "notes"), origins=["https://shop.example"])
    with (
        page_server(tmp_path / "data", demo=False, addition=page) as address,
        httpx.Client(base_url=address, timeout=60, verify=UNENCRYPTED) as client,
    ):
        yield client
    engine.close()


def test_allowed_pages_search_and_others_do_not(client: httpx.Client) -> None:
    preflight = client.options("/search", headers=SHOP | {"Access-Control-Request-Method": "POST"})
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "https://shop.example"
    answer = client.post("/search", json={"text": "boat", "visitor": "a" * 32}, headers=SHOP)
    assert answer.headers["access-control-allow-origin"] == "https://shop.example"
    assert "access-control-allow-credentials" not in answer.headers
    beacon = json.dumps({"impression": answer.json()["impression"], "clicks": ["knots.md"], "final": True})
    told = client.post("/search/clicks", content=beacon, headers=SHOP | {"Content-Type": "text/plain;charset=UTF-8"})
    assert told.json() == {"verdict": "closed"}
    other = {"Origin": "https://evil.example"}
    assert client.post("/search", json={"text": "boat"}, headers=other).status_code == 403
    assert client.post("/search/forget", json={"days": 0}, headers=SHOP).status_code == 403
    assert client.options("/search", headers=other).status_code in (403, 405)


def test_frames_and_the_file(client: httpx.Client) -> None:
    page = client.get("/search")
    assert "frame-ancestors https://shop.example" in page.headers["content-security-policy"]
    assert "x-frame-options" not in page.headers
    assert client.get("/healthz").headers["x-frame-options"] == "DENY"
    script = client.get("/search-field.js")
    assert script.headers["cross-origin-resource-policy"] == "cross-origin"
    assert len((PAGE_FOLDER / "search-field.js").read_bytes()) <= 3_000
    assert "{searchTerms}" in client.get("/search/opensearch.xml").text


@pytest.mark.parametrize("origin", ["*", "shop.example", "https://", "https://a/b", "ftp://a", "https://*.a"])
def test_odd_origins_are_refused(origin: str) -> None:
    with pytest.raises(InvalidInput, match="give scheme and host"):
        check_origins([origin])
