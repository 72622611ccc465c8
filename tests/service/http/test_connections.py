"""Whoever sends slowly, or nothing, is not waited for; whoever sends a request gets in."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from rankloop.service.http import connections
from tests.service.cases import SHOP, Location, running, until

HALF_HEADER = b"POST /rankers/shop/rank HTTP/1.1\r\nHost: localhost\r\n"
HALF_BODY = HALF_HEADER + b"Content-Length: 9\r\n\r\n{"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 1.0)
    monkeypatch.setattr(connections, "BODY_SECONDS", 1.0)


@contextmanager
def sending(client: httpx.Client, *beginnings: bytes) -> Iterator[list[socket.socket]]:
    """Connections that have sent so much, and nothing more."""
    with ExitStack() as stack:
        opened = []
        for beginning in beginnings:
            where = client.base_url.host, client.base_url.port or 80
            opened.append(stack.enter_context(socket.create_connection(where, timeout=5)))
            opened[-1].sendall(beginning)
        yield opened


def is_over(connection: socket.socket) -> bool:
    """Whether the other variant has closed it; an answer before that is read."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def is_fine(connection: socket.socket) -> bool:
    """Whether the next answer is that all is well, up to its last byte."""
    received = b""
    while not received.endswith(b'{"status":"ok"}'):
        received += connection.recv(4096)
    return received.startswith(b"HTTP/1.1 200")


def test_half_requests_are_not_waited_for(tmp_path: Path, quick: None) -> None:
    halves = [b"", HALF_HEADER, HALF_BODY, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"]
    with running(Location(tmp_path)) as client, sending(client, *halves * 5) as opened:
        until(lambda: all(map(is_over, opened)), patience=5)
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("beginning", [HALF_HEADER, HALF_BODY.replace(b"9", b"900")])
def test_a_byte_now_and_then_does_not_help(tmp_path: Path, quick: None, beginning: bytes) -> None:
    with running(Location(tmp_path)) as client, sending(client, beginning) as (slow,):
        begun = time.monotonic()
        while not is_over(slow):
            assert time.monotonic() - begun < 5
            time.sleep(0.1)
            slow.send(b"x")
        assert time.monotonic() - begun > 1


def test_a_body_that_says_how_long_it_is_may_take_longer(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MIN_BYTES_PER_SECOND", 3)  # bytes per second: 9 bytes may take 3 seconds more
    with running(Location(tmp_path)) as client, sending(client, HALF_BODY) as (slow,):
        time.sleep(2.5)
        slow.sendall(b'"a": 12}')
        assert slow.recv(12) == b"HTTP/1.1 422"


def test_a_long_answer_is_not_cut_short(tmp_path: Path, quick: None) -> None:
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        with client.stream("GET", "/events") as answer:
            begun = time.monotonic()
            for _ in answer.iter_lines():
                if time.monotonic() - begun > 3:
                    return
        raise AssertionError("the events ended")


def test_those_who_wait_make_room_for_those_who_ask(tmp_path: Path) -> None:
    with (
        running(Location(tmp_path), max_connections=20) as client,
        sending(client, *[HALF_HEADER] * 60) as opened,
    ):
        until(lambda: sum(map(is_over, opened)) >= 40, patience=5)
        with httpx.Client(base_url=client.base_url) as visitor:
            assert [visitor.get("/healthz").status_code for _ in range(3)] == [200] * 3
        assert len(client.server.server_state.connections) <= 20  # type: ignore[attr-defined]


def test_where_all_have_a_request_the_newest_goes(tmp_path: Path) -> None:
    with (
        running(Location(tmp_path), max_connections=3) as client,
        sending(client, *[HALF_BODY] * 3) as busy,
    ):
        until(lambda: sum(each.awaits_body for each in list(client.server.server_state.connections)) == 3)  # type: ignore[attr-defined]
        with sending(client, b"") as (newest,):
            until(lambda: is_over(newest), patience=5)
        assert not any(map(is_over, busy))


def test_connections_leave_descriptors_for_the_log() -> None:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert connections.connection_limit(10) == 10
    assert connections.connection_limit(descriptors * 2) == max(descriptors - 64, descriptors // 2)


def test_a_header_without_an_end_is_refused(tmp_path: Path) -> None:
    with running(Location(tmp_path)) as client, sending(client, HALF_HEADER) as (endless,):
        with suppress(ConnectionError):
            for number in range(100):
                endless.sendall(b"X-Padding-%d: " % number + b"x" * 3_000 + b"\r\n")
                time.sleep(0.01)  # so that it comes in several pieces
        until(lambda: is_over(endless), patience=5)
        assert client.get("/healthz").status_code == 200


def test_a_long_header_in_one_piece_is_refused(tmp_path: Path) -> None:
    """The limit holds however the bytes arrive: a complete header of 70,000 bytes is refused, too."""
    begun = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Padding: " + b"x" * 70_000 + b"\r\n\r\n"
    with running(Location(tmp_path)) as client, sending(client, begun) as (caller,):
        assert caller.recv(65536).startswith(b"HTTP/1.1 400")
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("trailer", [b"Host: evil.example", b"Origin: http://evil.example"])
def test_trailers_do_not_count_as_headers(tmp_path: Path, trailer: bytes) -> None:
    """A field after the body must not replace one before it."""
    begun = b"POST /rankers/none/feedback HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n"
    with running(Location(tmp_path)) as client, sending(client, begun + chunks) as (caller,):
        answer = caller.recv(65536)
    assert not answer.startswith(b"HTTP/1.1 403")
    assert answer.startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_the_body_of_a_request_to_change_the_protocol_is_no_request(tmp_path: Path, protocol: bytes) -> None:
    """A proxy that passes `Upgrade` on would take the body for a body; the service must not answer it."""
    hidden = b"GET /rankers HTTP/1.1\r\nHost: localhost\r\n\r\n"
    begun = (
        b"POST /rankers/none/feedback HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %b\r\n" % protocol
    )
    begun += b"Content-Length: %d\r\n\r\n" % len(hidden)
    with running(Location(tmp_path)) as client, sending(client, begun) as (caller,):
        time.sleep(0.1)  # so that the body comes in a piece of its own
        answers = b""
        with suppress(ConnectionError, TimeoutError):
            caller.sendall(hidden)
            caller.settimeout(2)
            while part := caller.recv(65536):
                answers += part
    assert answers.startswith(b"HTTP/1.1 400")
    assert b"HTTP/1.1 200" not in answers


def test_a_caller_who_hung_up_is_no_error_of_the_service() -> None:
    transport = SimpleNamespace(is_closing=lambda: True)
    cycle = object.__new__(RequestResponseCycle)
    cycle.keep_alive, cycle.disconnected, cycle.transport = True, False, transport
    with pytest.raises(ClientDisconnect):
        connections.send_at_once(cycle.send, b"", b"{}")


def test_the_rest_of_a_body_that_was_refused_is_no_header(tmp_path: Path) -> None:
    begun = b"POST /rankers/a/rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2500000\r\n\r\n"
    with running(Location(tmp_path)) as client, sending(client, begun + bytes(2_200_000)) as (caller,):
        answer = caller.recv(65536)
        assert answer.startswith(b"HTTP/1.1 413")
        with suppress(ConnectionError):  # it may be closed, but no other answer may come
            caller.sendall(bytes(300_000))
            caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 400 " not in caller.recv(65536)


def test_a_connection_is_kept_for_the_next_request_longer_than_a_header_may_take(tmp_path: Path, quick: None) -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(Location(tmp_path)) as client, sending(client, whole, whole) as (patient, half):
        assert is_fine(patient)
        assert is_fine(half)
        half.sendall(b"GET /hea")
        until(lambda: is_over(half), patience=5)  # by the limit of 1 second
        patient.sendall(whole)
        assert is_fine(patient)


def test_whoever_does_not_read_the_answers_is_not_waited_for(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MIN_BYTES_PER_SECOND", 1e9)
    asking = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(Location(tmp_path)) as client, sending(client, asking * 1000) as (deaf,):
        known = client.server.server_state.connections  # type: ignore[attr-defined]
        until(lambda: any(each.flow.write_paused for each in list(known)))
        until(lambda: not any(each.flow.write_paused for each in list(known)), patience=5)
        until(lambda: _is_reset(deaf), patience=5)
        assert client.get("/healthz").status_code == 200


def _is_reset(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"GET / HTTP/1.1\r\n")
    except ConnectionError:
        return True
    return False


def test_a_ranking_comes_in_one_piece_with_all_headers(tmp_path: Path) -> None:
    """A head and a body apart would cost the service and its client a system call more."""
    with running(Location(tmp_path)) as client:
        client.put("/rankers/shop", json=SHOP).raise_for_status()
        usual = client.get("/rankers/shop").headers
        items = [{"id": i, "features": [float(i)] * len(SHOP["problem"]["feature_names"])} for i in range(3)]
        answer = client.post("/rankers/shop/rank", json={"items": items}, headers={"X-Request-Id": "mine"})
        assert sorted(answer.headers) == sorted(usual)
        assert answer.headers["x-request-id"] == "mine"
        request = client.build_request("POST", "/rankers/shop/rank", json={"items": items})
        head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
        sent = f"POST /rankers/shop/rank HTTP/1.1\r\n{head}\r\n".encode() + request.content
        with sending(client, sent) as (connection,):
            received = connection.recv(65536)
        assert received.startswith(b"HTTP/1.1 200 OK\r\n")
        assert received.endswith(b"}")
