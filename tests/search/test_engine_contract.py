"""The engine of the package keeps to the protocol, and one that does not is told what is wrong."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.search.engine import MATCHES, Candidate, TextDocument, TextQuery
from rankloop.search.local_engine import LocalEngine
from tests.search.engine_contract import check_engine
from tests.search.sources import Listed


def test_the_engine_of_the_package_keeps_to_it(tmp_path: Path) -> None:
    made = []

    def engine_over(documents: Sequence[TextDocument]) -> LocalEngine:
        made.append(LocalEngine(tmp_path))
        made[0].refresh(Listed(documents))
        return made[0]

    check_engine(engine_over)
    made[0].close()


class Careless:
    """Finds everything for every query, with the worst first, and knows nothing else."""

    def __init__(self, documents: Sequence[TextDocument]) -> None:
        self.all = documents

    def candidates(self, query: TextQuery, n: int) -> list[Candidate]:
        return [Candidate(document.id, float(i)) for i, document in enumerate(self.all)]

    def features(self, query: TextQuery, ids: Sequence[str]) -> np.ndarray:
        return np.full((len(ids), len(MATCHES)), 2.0)

    def document(self, id: str) -> TextDocument:
        return self.all[0]


COMPLAINTS = (
    "are not at most three different documents",
    "are not from the best down",
    "though there is nothing to look for",
    "finds something",
    "phrase of 'wing' is no share",
    "features of a document that is not there are not refused",
    r"document\('heat'\) is not the one that was indexed",
    "is not None",
)


@pytest.mark.parametrize("complaint", COMPLAINTS)
def test_a_careless_engine_is_told(complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        check_engine(Careless)


def test_something_else_is_no_engine() -> None:
    with pytest.raises(InvalidInput, match="an engine has candidates"):
        check_engine(lambda documents: documents)  # type: ignore[arg-type,return-value]
