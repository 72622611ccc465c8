"""An agent that searches, reads and reports, through the official client."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from rankloop.search import SearchBox
from tests.coroutines import run_coroutine
from tests.search.boxes import box_over


def test_an_agent_searches_reads_and_teaches(tmp_path: Path) -> None:
    mcp = pytest.importorskip("mcp")
    from rankloop.search.integrations.agent_server import make_agent_server

    with box_over(tmp_path) as box:

        async def session() -> tuple[list[str], dict[str, Any], dict[str, Any], str, list[str]]:
            async with mcp.Client(make_agent_server(box)) as client:
                tools = [tool.name for tool in (await client.list_tools()).tools]

                async def call(name: str, **arguments: Any) -> Any:
                    answer = await client.call_tool(name, arguments)
                    text = answer.content[0].text
                    return json.loads(text) if text.startswith("{") else text

                shown = await call("search", query="boat")
                document = await call("read", id="knots.md")
                first = await call("used", impression=shown["impression"], ids=["knots.md"])
                wrong = [("used", {"impression": "nobody", "ids": []}), ("read", {"id": "no.md"})]
                answers = [await client.call_tool(*step) for step in [*wrong, ("search", {"query": "boat", "n": 51})]]
                assert all(answer.is_error for answer in answers)
                return tools, shown, document, first, [answer.content[0].text for answer in answers]

        tools, shown, document, first, reasons = run_coroutine(session())
        assert tools == ["search", "read", "used"]
        assert {result["id"] for result in shown["results"]} >= {"boats.md", "knots.md"}
        assert document["next_start"] is None
        assert document["text"]
        assert first == "learned"
        assert "there is no impression 'nobody'" in reasons[0]
        assert "there is no document 'no.md'" in reasons[1]
        assert "from 1 to 50" in reasons[2]
        assert box.predict("boat").state == 1


def test_an_agent_that_reports_one_document_again_and_again_does_not_bring_it_to_the_top(tmp_path: Path) -> None:
    """A document may tell agents to report it; 40 reports by visitors without a name would be enough."""
    mcp = pytest.importorskip("mcp")
    from rankloop.search.integrations.agent_server import make_agent_server

    folder = tmp_path / "reports"
    folder.mkdir()
    for i in range(12):
        (folder / f"{i:02}.txt").write_text("annual report\n" + "other words " * i)
    with SearchBox(folder, tmp_path / "learned") as box:
        honest = random.Random(0)
        for visit in range(60):
            shown = box.search("annual report", 12, f"user {visit}")
            box.learn(shown, clicks=[id for id in shown.ids if honest.random() < (0.6 if id < "03" else 0.05)])
        worst = box.predict("annual report", 12).ids[-1]

        async def session() -> None:
            async with mcp.Client(make_agent_server(box, "one agent")) as client:
                for _ in range(60):
                    answer = await client.call_tool("search", {"query": "annual report", "n": 12})
                    impression = json.loads(answer.content[0].text)["impression"]
                    await client.call_tool("used", {"impression": impression, "ids": [worst]})

        run_coroutine(session())
        place = box.predict("annual report", 12).ids.index(worst)
        assert place > 2, place
