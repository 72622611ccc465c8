"""The check that an engine keeps to the protocol; authors of other engines may copy it."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rankloop.core.errors import InvalidInput, RankloopError
from rankloop.search.engine import MATCHES, SearchEngine, TextDocument
from rankloop.search.texts import read_text

CONTRACT_DOCUMENTS = (
    TextDocument("wing", "Wing in a slipstream", "Lift of a wing in the slipstream of a propeller. " * 3, 86400.0),
    TextDocument("heat", "Heat of composite slabs", "Conduction of heat; a wing is heated too."),
    TextDocument("shell", "Buckling shells", "Thin shells buckle under pressure. <b>Nothing</b> here is & was a tag."),
    TextDocument("turn", "Slabs, composite", "The words of another title the other way round."),
    TextDocument("winter", "Зима", "Зимой холодно."),
    TextDocument("japan", "日本語", "東京は日本の首都です。"),
    TextDocument("quoted", 'Quotes "and" NOT operators', "AND OR NOT NEAR(a b) title:x ^y -z *"),
)
SIGN_QUERIES = ('"', '""', "*", "(", "^", "{}", "\\", "'; --")
OPERATOR_QUERIES = ("a AND", "NOT", 'title:"', "NEAR(a, 3)", "-wing", "[a TO b]")
EMPTY_QUERIES = ("", "   ", '"" ( ) * - : ~', "…")
EXPECTED_HITS = (
    ("slipstream", "wing"),
    ("CONDUCTION", "heat"),
    ("buckling", "shell"),
    ('"composite slabs"', "heat"),
    ('"slabs composite"', "turn"),
    ("propel*", "wing"),
    ("зима", "winter"),
    ("首都", "japan"),
    ("operators", "quoted"),
)
SHARE_FEATURES = ("phrase", "proximity", "coverage", "coverage_title", "exact_title")


def check_engine(engine_over: Callable[[Sequence[TextDocument]], SearchEngine]) -> None:
    """Raise `InvalidInput` with all that is wrong with an engine. `engine_over` makes one over documents."""
    engine = engine_over(CONTRACT_DOCUMENTS)
    if not isinstance(engine, SearchEngine):
        raise InvalidInput("an engine has candidates(query, n), features(query, ids) and document(id)")
    wrong = [*_candidates(engine), *_features(engine), *_documents(engine)]
    if wrong:
        raise InvalidInput("; ".join(wrong))


def _candidates(engine: SearchEngine) -> Iterator[str]:
    document_ids = {document.id for document in CONTRACT_DOCUMENTS}
    matching_queries = [text for text, _ in EXPECTED_HITS]
    for text in (*EMPTY_QUERIES, *SIGN_QUERIES, *OPERATOR_QUERIES, *matching_queries, "wing heat slabs", "x" * 1_000):
        try:
            candidates = engine.candidates(read_text(text), 3)
        except Exception as error:
            yield f"candidates({text!r:.40}) raises {type(error).__name__}: {error}"
            continue
        ids = [candidate.id for candidate in candidates]
        scores = np.array([candidate.score for candidate in candidates])
        if len(set(ids)) < len(ids) or not document_ids.issuperset(ids) or len(ids) > 3:
            yield f"candidates({text!r:.40}, 3) are not at most three different documents: {ids}"
        if not np.isfinite(scores).all() or (np.diff(scores) > 0).any():
            yield f"the scores of candidates({text!r:.40}) are not from the best down: {scores.tolist()}"
        if engine.candidates(read_text(text), 3) != candidates:
            yield f"candidates({text!r:.40}) are others the second time"
        if text in EMPTY_QUERIES and candidates:
            yield f"candidates({text!r}) finds {ids}, though there is nothing to look for"
    for text, id in EXPECTED_HITS:
        ids = [candidate.id for candidate in engine.candidates(read_text(text), 3)]
        if ids[:1] != [id] or (text.startswith('"') and len(ids) > 1):
            yield f"candidates({text!r}) finds {ids} and not {id!r}"
    if engine.candidates(read_text("wing"), 0):
        yield "candidates(query, 0) finds something"


def _features(engine: SearchEngine) -> Iterator[str]:
    ids = [document.id for document in CONTRACT_DOCUMENTS]
    for text in ("wing", "composite slabs", "heat of composite slabs", "", "qzx", "propel*", "日本"):
        query = read_text(text)
        rows = engine.features(query, ids)
        if rows.shape != (len(ids), len(MATCHES)) or rows.dtype != np.float64 or not np.isfinite(rows).all():
            yield f"features({text!r}) are no finite numbers of shape {len(ids), len(MATCHES)}, one row per id"
            continue
        if not np.array_equal(engine.features(query, ids[::-1]), rows[::-1]):
            yield f"features({text!r}) of a document depend on the order of the ids"
        if not np.array_equal(engine.features(query, ids[:1]), rows[:1]):
            yield f"features({text!r}) of a document depend on the others"
        for name in SHARE_FEATURES:
            column = rows[:, MATCHES.index(name)]
            if column.min() < 0.0 or column.max() > 1.0 + 1e-9:
                yield f"{name} of {text!r} is no share: {column.tolist()}"
        if rows.min() < 0.0:
            yield f"features({text!r}) has numbers below 0"
    if engine.features(read_text("wing"), []).shape != (0, len(MATCHES)):
        yield f"features of no documents have another shape than {0, len(MATCHES)}"
    try:
        engine.features(read_text("wing"), ["moon"])
        yield "features of a document that is not there are not refused"
    except RankloopError:
        pass


def _documents(engine: SearchEngine) -> Iterator[str]:
    for document in CONTRACT_DOCUMENTS:
        if engine.document(document.id) != document:
            yield f"document({document.id!r}) is not the one that was indexed"
    if engine.document("moon") is not None:
        yield "document(id) of an id that is not there is not None"
