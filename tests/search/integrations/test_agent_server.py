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

        async def session() -> tuple[list[str], dict[str, Any], dict[str, Any], str, str]:
            async with mcp.Client(make_agent_server(box)) as client:
                tools = [tool.name for tool in (await client.list_tools()).tools]

                async def call(name: str, **arguments: Any) -> Any:
                    answer = await client.call_tool(name, arguments)
                    text = answer.content[0].text
                    return json.loads(text) if text.startswith("{") else text

                shown = await call("search", query="boat")
                document = await call("read", id="knots.md")
                first = await call("used", impression=shown["impression"], ids=["knots.md"])
                again = await call("used", impression="nobody", ids=[])
                return tools, shown, document, first, again

        tools, shown, document, first, again = run_coroutine(session())
        assert tools == ["search", "read", "used"]
        assert {result["id"] for result in shown["results"]} >= {"boats.md", "knots.md"}
        assert document["next_start"] is None
        assert document["text"]
        assert first == "learned"
        assert again.startswith("not learned")
        assert box.predict("boat").state == 1
