"""A ranker with a schema from yesterday's clicks: a learner goes over the logged lists as if it had shown them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_origin

import numpy as np
from numpy.typing import ArrayLike

from rankloop.core.errors import InvalidInput, UnstableUpdate
from rankloop.core.learner import from_layers, with_in_layers
from rankloop.core.plain import receipt_type
from rankloop.core.protocols import AnyLearner
from rankloop.core.registry import Spec, build, entry_of, spec_of
from rankloop.core.saved_session import save
from rankloop.core.session import Session
from rankloop.core.types import Clicks, Decision, Feedback, Floats, Ints, Relevances, finite_floats
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.learners.click_regression import POSITIONS
from rankloop.learners.wrappers.hashed_columns import with_hashed
from rankloop.logs.list_log import ShownList
from rankloop.measures.base import mean_of, parse_measure
from rankloop.training.clicks.ips_weights import click_weights
from rankloop.training.clicks.position_bias import Impressions, any_moved, bias_by_em
from rankloop.training.clicks.reader import UNTOLD_BIAS
from rankloop.training.clicks.train import GAIN, HELD_OUT

MAX_PASSES = 5
LOGGED = 0  # passes of the order that was logged

Lists = Sequence[ShownList]


class SchemaRanker(NamedTuple):
    """A ranker with a schema, and how it was trained."""

    session: Session
    schema: Schema
    passes: int
    gains: dict[int, float]  # by passes: the weighted clicks gained on held-out lists; 0: by the logged order
    examined: Floats  # the probability of each position to be examined
    told: bool  # whether that was given or could be estimated from items that moved; else it is the learner's own
    refused: int  # updates that would have been unstable

    def save(self, path: Path) -> None:
        """As a file that `Ranker.load`, `rankloop evaluate` and the service read, with the names of all fields."""
        how = {"passes": self.passes, "looked_at": self.examined.tolist()}
        save(self.session, path, {"schemas": [self.schema.to_plain()], **how})


def train_with_schema(
    lists: Lists,
    schema: Schema,
    learner: str | Spec | AnyLearner = "click_regression",
    *,
    passes: int = MAX_PASSES,
    position_bias: ArrayLike | None = None,
    clip: float = 10.0,
    shown: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> SchemaRanker:
    """Choose on held-out lists how often to go over the log, up to `passes` times, and train on all of it.

    `click_regression` learns how much positions matter while it learns the rest, unless `position_bias` says it; for
    other learners clicks are weighed by it, and it is estimated from items that moved unless given. Learners that need
    what they decided themselves cannot learn from the log of another ranker: refused. `shown` is how many positions
    people see, those of the longest list unless given.
    """
    if not any(one.clicked.any() for one in lists):
        raise InvalidInput("the log has no click, so there is nothing to learn from")
    if passes < 1:
        raise InvalidInput(f"passes = {passes} must be at least 1")
    held_out = np.random.default_rng(seed).permutation(len(lists)) % HELD_OUT == 0
    if held_out.all():
        raise InvalidInput(f"the log has {len(lists)} list(s); there must be at least two to choose the passes")
    chosen, judges = ([one for one, out in zip(lists, held_out) if out == part] for part in (False, True))
    trainer = _Trainer(lists, schema, learner, position_bias, clip, shown, seed)
    session, orders = trainer.new_session(), []
    for done in range(1, passes + 1):
        trainer.go_over(session, chosen)
        orders.append([session.predict(one.query(trainer.encoder)) for one in judges])
        progress(done, 2 * passes)
    examined = trainer.examined_by(session)
    weights = [trainer.weights(one, examined) for one in judges]
    gains = {LOGGED: _gain([np.arange(len(one.ids)) for one in judges], weights)}
    gains |= {done: _gain(order, weights) for done, order in enumerate(orders, start=1)}
    best = max(range(1, passes + 1), key=lambda done: gains[done])
    session = trainer.new_session()
    for done in range(best):
        trainer.go_over(session, lists)
        progress(passes + done + 1, passes + best)
    told = trainer.examined is not None
    return SchemaRanker(session, schema, best, gains, trainer.examined_by(session), told, session.refused)


class _Trainer:
    """How lists are learned from, the same in every pass."""

    def __init__(
        self,
        lists: Lists,
        schema: Schema,
        learner: str | Spec | AnyLearner,
        position_bias: ArrayLike | None,
        clip: float,
        shown: int | None,
        seed: int,
    ) -> None:
        self.encoder, self.clip, self.seed = Encoder(schema), clip, seed
        self.n_positions = max(int(one.position.max()) for one in lists) + 1
        recipe = build(learner, "learner")
        self.learns_bias = from_layers(recipe, "examination") is not None
        given = None if position_bias is None else finite_floats(position_bias, 1, "position_bias")
        if given is not None and (len(given) < self.n_positions or not ((given > 0) & (given <= 1)).all()):
            raise InvalidInput(
                f"position_bias needs {self.n_positions} probabilities above 0, got {given.tolist()!r:.80}"
            )
        if self.learns_bias and given is not None:
            recipe = with_in_layers(recipe, "examination", tuple(given[:POSITIONS].tolist()))
        self.learner = with_hashed(recipe)
        self.receipt = _receipt_of(self.learner)
        self.examined = examined_by_position(lists, self.learns_bias) if given is None else given
        longest = max(len(one.ids) for one in lists)
        self.problem = schema.problem(shown=longest if shown is None else shown)

    def new_session(self) -> Session:
        return Session(self.learner, self.problem, self.seed)

    def go_over(self, session: Session, lists: Lists) -> None:
        """One pass, in the order of the log; an update that would be unstable is left out and counted."""
        for one in lists:
            query, n_items = one.query(self.encoder), len(one.ids)
            decision = Decision(np.arange(n_items), one.log_propensity, self.receipt(n_items))
            try:
                session.learn(query, decision, self._feedback(one))
            except UnstableUpdate:
                continue

    def examined_by(self, session: Session) -> Floats:
        """How likely positions are examined: as told, or as the learner found out."""
        if self.examined is not None:
            return self.examined
        offsets: Floats = from_layers(session.state, "offsets")
        by_position = offsets[np.minimum(np.arange(self.n_positions), len(offsets) - 1)]
        examined: Floats = np.minimum(1.0, np.exp(by_position - by_position[0]))
        return examined

    def weights(self, one: ShownList, examined: Floats) -> Floats:
        """What each item's click weighs, by how unlikely its position was to be examined."""
        return one.clicked * click_weights(one.position, examined, self.clip)

    def _feedback(self, one: ShownList) -> Feedback:
        weights = one.clicked if self.examined is None or self.learns_bias else self.weights(one, self.examined)
        if Clicks not in self.learner.accepts:
            return Relevances(np.arange(len(one.ids)), weights)
        items = np.flatnonzero(weights[: self.problem.shown])
        return Clicks(items, weights[items])


def _receipt_of(learner: AnyLearner) -> Callable[[int], Any]:
    """What the learner would have handed out for a list that somebody else ordered, by the number of its items."""
    annotation = receipt_type(learner)
    cls = get_origin(annotation) or annotation
    takes = [kind for kind in (Clicks, Relevances) if kind in learner.accepts]
    if takes and annotation == tuple[()]:
        return lambda n_items: ()
    if takes and getattr(cls, "_fields", ()) == ("n_items",):
        return lambda n_items: cls(n_items)
    raise InvalidInput(
        f"{_kind(learner)} learns from what it tried out itself, which the log of another ranker does not hold: train "
        "click_regression on the log"
    )


def _kind(learner: AnyLearner) -> str:
    inner = spec_of(learner).get("inner")
    return str(inner["kind"]) if isinstance(inner, dict) else entry_of(learner).kind


def examined_by_position(lists: Lists, may_be_unknown: bool) -> Floats | None:
    """By expectation maximisation; None where no item stands at two positions and the learner can do without."""
    numbers: dict[tuple[str, Any], int] = {}
    pair = [numbers.setdefault((one.query_id, id), len(numbers)) for one in lists for id in one.ids]
    position = np.concatenate([one.position for one in lists])
    seen = Impressions(np.array(pair, dtype=np.int64), position, np.concatenate([one.clicked for one in lists]))
    if position.max() > 0 and not any_moved(seen):
        if may_be_unknown:
            return None
        raise InvalidInput(UNTOLD_BIAS)
    return bias_by_em(seen).examined


def _gain(orders: Sequence[Ints], weights: Sequence[Floats]) -> float:
    scores = [np.empty(len(order)) for order in orders]
    for score, order in zip(scores, orders):
        score[order] = -np.arange(len(order))
    offsets = np.concatenate([[0], np.cumsum([len(order) for order in orders])])
    return mean_of(parse_measure(GAIN).of_scores(np.concatenate(scores), np.concatenate(weights), offsets))
