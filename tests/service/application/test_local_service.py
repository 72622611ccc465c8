"""The service inside a program: calls from any thread, errors as they are, closed once."""

import asyncio
import threading
from pathlib import Path

import msgspec
import pytest

from rankloop.core.errors import Conflict, InvalidInput, NotFound, Rejected
from rankloop.service.application.local_service import LocalService
from rankloop.service.requests import BaseBody, CreateBody, Item, ProblemBody, RankBody
from rankloop.service.settings import Settings
from tests.service.cases import SHOP

BODY = CreateBody(SHOP["learner"], ProblemBody(feature_names=SHOP["problem"]["feature_names"]), seed=3)


def threads() -> int:
    return sum(thread.name == "service" for thread in threading.enumerate())


def test_calls_give_what_they_give_and_raise_what_they_raise(tmp_path: Path) -> None:
    local = LocalService(Settings(data=tmp_path))
    assert local.call(local.node.administration.create("shop", BODY))
    with pytest.raises(NotFound, match="nobody"):
        local.call(local.node.administration.saved("nobody"))
    assert not local.call(local.node.administration.create("shop", BODY))
    local.close()
    local.close()
    again = LocalService(Settings(data=tmp_path))
    assert list(again.node.directory.rankers) == ["shop"]
    again.close()


def test_a_ranker_without_a_base_is_not_compared(tmp_path: Path) -> None:
    body = RankBody([Item(f"i{i}", [float(i), 0.0, 0.0]) for i in range(3)])
    local = LocalService(Settings(data=tmp_path))
    local.call(local.node.administration.create("shop", BODY))
    with pytest.raises(Rejected, match="no base"):
        local.call(local.node.ranking.rank("shop", body, compared=True))
    based = msgspec.structs.replace(BODY, base=BaseBody(feature="price"))
    local.call(local.node.administration.create("based", based))
    local.call(local.node.ranking.rank("based", body, compared=True))
    local.call(local.node.ranking.rank("based", body))
    mixed = [
        record.event.mixed is not None
        for record in local.node.store.read("ranker/based")
        if hasattr(record.event, "mixed")
    ]
    assert mixed == [True, False]
    local.close()


def test_after_the_end_a_call_is_refused(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    before = threads()
    local = LocalService(Settings(data=tmp_path))
    local.close()
    with pytest.raises(InvalidInput, match="closed"):
        local.call(asyncio.sleep(0))
    assert threads() == before
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]


def test_a_folder_in_use_leaves_nothing_behind(tmp_path: Path) -> None:
    local = LocalService(Settings(data=tmp_path))
    before = threads()
    with pytest.raises(Conflict, match="in use"):
        LocalService(Settings(data=tmp_path))
    assert threads() == before
    local.close()
