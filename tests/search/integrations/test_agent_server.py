"""An agent that searches, reads and reports, through the official client."""

import json
from pathlib import Path
from typing import Any

import pytest

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
