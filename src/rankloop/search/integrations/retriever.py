"""A retriever with the method names that LangChain, LlamaIndex and Haystack call, without depending on them."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from rankloop.search.box import SearchBox


class RetrievedText(NamedTuple):
    """A document for a language model."""

    id: str
    page_content: str  # its text
    metadata: dict[str, Any]  # title, date, fields, score, and the impression to report use with
    score: float  # the engine's own, without what was learned: the order of the list may differ

    @property
    def content(self) -> str:
        """Return the text, under the name of Haystack."""
        return self.page_content

    @property
    def text(self) -> str:
        """Return the text, under the name of LlamaIndex."""
        return self.page_content


class Retriever:
    r"""Retrieves documents of a search box and reports the ones that were used, from which the box learns.

    >>> import tempfile, pathlib
    >>> notes = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (notes / "knots.md").write_text("# Knots\n\nA bowline holds a boat.")
    >>> with SearchBox(notes, data=notes / "learned") as box:
    ...     retriever = Retriever(box, n=3)
    ...     documents = retriever.invoke("boat")
    ...     retriever.used(documents[:1])
    >>> documents[0].page_content.startswith("Knots")
    True

    Args:
      box: The documents.
      n: The number of documents.
      max_characters: Of each text.
    """

    def __init__(self, box: SearchBox, n: int = 5, max_characters: int = 8_000) -> None:
        self.box, self.n, self.max_characters = box, n, max_characters

    def invoke(self, input: str, *args: Any, **options: Any) -> list[RetrievedText]:
        """Return documents for a question, as retrievers of LangChain do; their configuration is ignored."""
        shown, texts = self.box.search(input, self.n), list[RetrievedText]()
        for result in shown.results:
            document = self.box.read(result.id)
            metadata = {"id": result.id, "title": document.title, "at": document.at, "impression": shown.impression}
            metadata |= {"fields": dict(document.fields), "score": result.score}
            text = f"{document.title}\n\n{document.body}"[: self.max_characters]
            texts.append(RetrievedText(result.id, text, metadata, result.score))
        return texts

    async def ainvoke(self, input: str, *args: Any, **options: Any) -> list[RetrievedText]:
        """Return documents for a question from asynchronous code, as retrievers of LangChain do."""
        return await asyncio.to_thread(self.invoke, input)

    def retrieve(self, query: Any) -> list[RetrievedText]:
        """Return documents for a question or a query bundle, as retrievers of LlamaIndex do."""
        return self.invoke(getattr(query, "query_str", query))

    def run(self, query: str, top_k: int | None = None) -> dict[str, list[RetrievedText]]:
        """Return `top_k` documents for a question, as components of Haystack do."""
        retriever = self if top_k is None else Retriever(self.box, top_k, self.max_characters)
        return {"documents": retriever.invoke(query)}

    def used(self, documents: Sequence[RetrievedText]) -> None:
        """Report the documents that an answer used; each list counts once."""
        by_impression = dict[str, list[str]]()
        for document in documents:
            by_impression.setdefault(document.metadata["impression"], []).append(document.id)
        for impression, ids in by_impression.items():
            self.box.learn(impression, used=ids)
