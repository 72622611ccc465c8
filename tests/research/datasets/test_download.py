"""Fetching over HTTP, from a server on this machine only."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.core.files import cache_folder
from research.datasets.download import SOURCES, FetchFailed, MissingPackage, PublicFile, fetch, need

CONTENT = b"1 qid:1 1:0.5\n" * 1000
RIGHT = hashlib.sha256(CONTENT).hexdigest()


class Pages(BaseHTTPRequestHandler):
    """/good answers in full, /cut stops half-way, everything else is not there."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path not in ("/good", "/cut"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT if self.path == "/good" else CONTENT[: len(CONTENT) // 2])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        server.asked = []
        server.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def files_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_with_the_right_checksum_is_fetched_once(server, tmp_path):
    for _ in range(2):
        path = fetch("set.txt", tmp_path, url=f"{server.address}/good", sha256=RIGHT.upper())
    assert path.read_bytes() == CONTENT
    assert server.asked == ["/good"]
    assert files_in(tmp_path) == ["set.txt", "set.txt.sha256"]


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(FetchFailed, match="not the file that was meant"):
        fetch("set.txt", tmp_path, url=f"{server.address}/good", sha256="0" * 64)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("page", ["/cut", "/absent"])
@pytest.mark.parametrize("known", [{"sha256": RIGHT}, {"trust": True}])
def test_a_failed_download_is_one_clear_error(server, tmp_path, page, known):
    with pytest.raises(FetchFailed, match="could not be fetched") as caught:
        fetch("set.txt", tmp_path, url=server.address + page, **known)
    assert isinstance(caught.value, RankloopError)
    assert files_in(tmp_path) == []


def test_nobody_answers(tmp_path, server):
    server.server_close()
    with pytest.raises(FetchFailed, match="could not be fetched"):
        fetch("set.txt", tmp_path, url=f"{server.address}/good", sha256=RIGHT)


def test_an_unknown_checksum_needs_consent_and_holds_from_then_on(server, tmp_path):
    url = f"{server.address}/good"
    with pytest.raises(InvalidInput, match="trust=True"):
        fetch("set.txt", tmp_path, url=url)
    assert server.asked == []
    path = fetch("set.txt", tmp_path, url=url, trust=True)
    assert (tmp_path / "set.txt.sha256").read_text().strip() == RIGHT
    path.write_bytes(b"changed on disk")
    assert fetch("set.txt", tmp_path, url=url).read_bytes() == CONTENT
    (tmp_path / "set.txt.sha256").write_text("0" * 64)
    with pytest.raises(FetchFailed, match="not the file that was meant"):
        fetch("set.txt", tmp_path, url=url)


def test_named_sets_lie_in_the_cache_folder(server, monkeypatch):
    monkeypatch.setitem(SOURCES, "little", PublicFile(f"{server.address}/good", "little.txt", RIGHT))
    assert fetch("little") == cache_folder() / "downloads" / "little.txt"
    with pytest.raises(InvalidInput, match="did you mean 'little'"):
        fetch("litle")


def test_the_table_of_sources():
    for source in SOURCES.values():
        assert source.url.startswith("https://")
        assert source.sha256 is None or len(bytes.fromhex(source.sha256)) == 32


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(MissingPackage, match=r"needs the package 'no_such_package': pip install 'rankloop\[data\]'"):
        need("no_such_package.part", "doing this")
