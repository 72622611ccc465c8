"""A Model Context Protocol server over a search box: agents search, read, and report what they used."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankloop import __version__
from rankloop.core.errors import RankloopError
from rankloop.core.extras import import_extra
from rankloop.search.box import SearchBox

MAX_READ_CHARACTERS = 20_000  # of a document in one call
INSTRUCTIONS = (
    "Search the user's documents with `search`, read a document with `read`, and report the ids that your answer used "
    "with `used`: the search learns from it."
)


def make_agent_server(box: SearchBox, visitor: str = "") -> Any:
    """Return a server with the tools `search`, `read` and `used`.

    Args:
      box: The search box.
      visitor: Who searches, if it is one agent: its reports on a query count less and less. Empty for many agents.
    """
    tool_error: Any = import_extra("mcp.server.mcpserver.exceptions").ToolError
    new_server: Any = import_extra("mcp.server").MCPServer
    server = new_server("rankloop search", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    def search(query: str, n: int = 10) -> dict[str, Any]:
        """Search the documents by words and meaning.

        The query may be a question of any length, with "phrases", -word, field:value and after:2024-01.
        """
        shown = box.search(query, n, visitor)
        keys = ("id", "title", "snippet", "by_meaning")
        results = [{key: getattr(result, key) for key in keys} for result in shown.results]
        return {"impression": shown.impression, "did_you_mean": shown.did_you_mean, "results": results}

    def read(id: str, start: int = 0) -> dict[str, Any]:
        """Read a document from a character on; `next_start` is None at its end."""
        document = box.read(id)
        end = max(start, 0) + MAX_READ_CHARACTERS
        next_start = end if end < len(document.body) else None
        return {"id": id, "title": document.title, "text": document.body[max(start, 0) : end], "next_start": next_start}

    def used(impression: str, ids: list[str]) -> str:
        """Report which results of a search were used in the answer; an empty list says that none was useful."""
        box.learn(impression, used=ids)
        return "learned"

    @contextmanager
    def reasons() -> Iterator[None]:
        try:
            yield
        except RankloopError as error:
            raise tool_error(str(error)) from None  # agents see the text of this exception only

    for tool in (search, read, used):
        server.add_tool(reasons()(tool))
    return server
