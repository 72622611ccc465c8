"""Documents for tests, as a source."""

from collections.abc import Iterator, Mapping, Sequence

from rankloop.search.engine import Document
from rankloop.search.source import Found, Skipped


class Listed:
    """Documents from a list; a stamp is what they are."""

    name = "a list"

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = documents
        self.skipped = Skipped()

    def documents(self, known: Mapping[str, str]) -> Iterator[Found]:
        self.skipped = Skipped()
        for document in self._documents:
            stamp = repr(document)
            yield Found(document.id, stamp, None if known.get(document.id) == stamp else document)
