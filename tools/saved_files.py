"""Write the saved files that every later version has to read: `python -m tools.saved_files`, once per format version.

tests/core/test_saved_session.py and tests/test_ranker.py load them and expect the very numbers of expected.json.
"""

import json
from pathlib import Path

import numpy as np

from rankloop import Clicks, Problem, Query, Ranker, Schema, Session, build, save

FOLDER = Path(__file__).parents[1] / "tests" / "fixtures" / "saved"
EXAMPLE_ITEM = {
    "a": {"price": 1999, "brand": "Acme", "title": "Red shoes"},
    "b": {"price": 500, "brand": "Bolt", "title": "Socks"},
    "c": {"price": 1200, "title": "Blue shoes"},
}


def trained_session() -> Session:
    """Return a session of `3pr` that has learned from 20 clicks on four features."""
    session, rng = Session(build("3pr"), Problem(n_features=4, feature_names=("a", "b", "c", "d")), 4), rng_of(1)
    for _ in range(20):
        query = Query.of(rng.random((5, 4)))
        decision = session.rank(query)
        clicked = np.array([int(np.argmax(query.features[:, 0]))])
        session.learn(query, decision, Clicks(clicked, np.ones(1)))
    return session


def trained_ranker() -> Ranker:
    """Return a ranker over a schema that has learned from eight clicks."""
    features = {"price": "number", "brand": "category", "title": "words"}
    schema = Schema(features, {"segment": "category"}, ["segment*brand"], 8)
    ranker = Ranker("click_regression", features=schema, seed=2)
    for turn in range(8):
        shown = ranker.rank(EXAMPLE_ITEM, context={"segment": "sport"}, at=1.7e9)
        ranker.learn(shown, clicks=["c" if turn % 4 == 3 else "a"])
    return ranker


def numbers_of_session(session: Session) -> dict[str, object]:
    """Return what a loaded session is compared by: its state, and what it shows next."""
    query = Query.of(rng_of(2).random((5, 4)))
    state = {name: np.asarray(value).tolist() for name, value in session.state._asdict().items()}
    return {
        "state": state,
        "learned": session.learned,
        "rankings": [session.rank(query).ranking.tolist() for _ in range(4)],
    }


def numbers_of_ranker(ranker: Ranker) -> dict[str, object]:
    """Return what a loaded ranker is compared by: its table of weights, and what it shows next."""
    columns, values = ranker.session.state.table.used()
    shown = [ranker.rank(EXAMPLE_ITEM, context={"segment": "sport"}, at=1.7e9).ids for _ in range(4)]
    return {"columns": columns.tolist(), "values": values.tolist(), "rankings": shown}


def rng_of(seed: int) -> np.random.Generator:
    """Return the generator of a seed."""
    return np.random.default_rng(seed)


def main() -> None:
    """Write both files and their numbers."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    session, ranker = trained_session(), trained_ranker()
    save(session, FOLDER / "session.rankloop")
    ranker.save(FOLDER / "ranker.rankloop")
    expected = {"session": numbers_of_session(session), "ranker": numbers_of_ranker(ranker)}
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
