"""Documents for tests, as a source."""

from collections.abc import Iterator, Mapping, Sequence

from rankloop.search.engine import TextDocument
from rankloop.search.sources import Skipped, SourceDocument


class Listed:
    """Documents from a list; a stamp is what they are."""

    name = "a list"

    def __init__(self, documents: Sequence[TextDocument]) -> None:
        self._documents = documents
        self.skipped = Skipped()

    def documents(self, known: Mapping[str, str]) -> Iterator[SourceDocument]:
        self.skipped = Skipped()
        for document in self._documents:
            stamp = repr(document)
            yield SourceDocument(document.id, stamp, None if known.get(document.id) == stamp else document)
