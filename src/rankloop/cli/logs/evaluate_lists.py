"""`rankloop evaluate --log` on lists: clicks, purchases and money per 1,000 pages, by which positions are examined."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import typer

from rankloop.cli.output import print_json
from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import nearest
from rankloop.core.session import Session
from rankloop.core.types import Clicks
from rankloop.data.folder import given_path
from rankloop.evaluation.off_policy.estimators import Method
from rankloop.evaluation.off_policy.judge import HERE
from rankloop.evaluation.off_policy.lists.answer import AUTO, KNOWN_BY, ListEstimate, ListOptions, evaluate_pages
from rankloop.evaluation.off_policy.lists.estimates import ListMethod
from rankloop.evaluation.off_policy.lists.pages import ShownPage
from rankloop.evaluation.off_policy.lists.report import list_verdicts, plot_lists
from rankloop.evaluation.off_policy.lists.sources import (
    impression_pages,
    list_pages,
    plain_outcomes,
    ranking_pages,
    table_pages,
)
from rankloop.evaluation.off_policy.ranking_log import BY_NUMBERS, BY_POSITION, BY_SCHEMA, checked_first
from rankloop.evaluation.ranking.saved_model import load_with_schema
from rankloop.features.encoder import Encoder
from rankloop.features.schema import Schema
from rankloop.logs.columns import RAW_GUESSES, holds_lists, named_columns
from rankloop.logs.impressions import (
    exported_names,
    exported_schemas,
    holds_impressions,
    read_impressions,
    read_shown_lists,
)
from rankloop.logs.shown_lists import read_raw_table
from rankloop.logs.table import column_names
from rankloop.service.application.rankings import feature_names_in, is_service_log, logged_rankings, schemas_in

if TYPE_CHECKING:
    from rankloop.cli.logs.evaluate_log import LogOptions

PER = 1000  # pages


def by_examination(log: str, asked: "LogOptions") -> bool:
    """Whether a log holds lists and a ranker is to be judged by who examines what."""
    model, method = asked.model, asked.method
    if method not in ("", AUTO):
        _check_known(method)
        return method in get_args(ListMethod)
    if is_service_log(log):
        return model is None or _clicks(log, asked.ranker) is not False
    if holds_impressions(path := given_path(log)):
        return True
    return model is not None and holds_lists(column_names(path), {}) and _ranks(model)


def _check_known(method: str) -> None:
    known = (*get_args(Method), *BY_POSITION, *get_args(ListMethod))
    if method not in known:
        raise InvalidInput(f"estimator = {method!r} is not known{nearest(method, known)}")


def _ranks(model: Path) -> bool:
    """Whether a saved model ranks items by their features, rather than choosing one ad for a visitor."""
    return load_with_schema(model)[0].problem.n_features > 0


def _clicks(log: str, ranker: str) -> bool | None:
    """Whether a ranker of a service learns from clicks; None: it is not said which one is meant, or it has no log."""
    try:
        first = next(logged_rankings(log, ranker), None)
    except InvalidInput:
        return None
    return None if first is None else Clicks in first.drawn_by.learner.accepts


def evaluate_lists(log: str, asked: "LogOptions", plot: Path | None, as_json: bool) -> None:
    if asked.model is None:
        raise InvalidInput(f"{log} holds rankings: name the saved ranker to judge, before --log")
    with progress_bar(f"judging {Path(log).name}", "pages") as progress:
        session, schema = load_with_schema(asked.model)
        pages = plain_outcomes(_watched(_pages(log, session, schema, asked), progress))
        options = asked.options
        own = ListOptions(options.level, asked.positions, options.limit, _told(asked.position_bias), seed=options.seed)
        found = evaluate_pages(session, pages, asked.method or AUTO, own, HERE if is_service_log(log) else asked.engine)
    name = f"ranker of {asked.model.name}"
    if plot is not None:
        plot_lists(name, found, plot)
    if as_json:
        print_json(_plain(name, found))
        return
    typer.echo(_text(Path(log).name, name, found))
    if plot is not None:
        typer.echo(f"The plot is in {plot}.")


def _watched(pages: Iterator[ShownPage], progress: Any) -> Iterator[ShownPage]:
    for number, page in enumerate(pages, 1):
        if number % 100 == 0:
            progress(number, number)
        yield page


def _pages(log: str, session: Session, schema: Schema | None, asked: "LogOptions") -> Iterator[ShownPage]:
    from rankloop.cli.logs.evaluate_log import check_fields

    model = asked.model.name if asked.model else ""
    if is_service_log(log):
        known = [] if schema is None else schemas_in(log, asked.ranker)
        if schema is not None and known:
            check_fields(schema, known, model, log)
        encoder = None if schema is None else Encoder(schema)
        pages = ranking_pages(logged_rankings(log, asked.ranker), encoder)
        return _checked(pages, session, model, feature_names_in(log, asked.ranker) if schema is None else ())
    path = given_path(log)
    if not holds_impressions(path):
        table = read_raw_table(path, schema, named_columns(asked.column, tuple(RAW_GUESSES)))
        return table_pages(table, session.problem.feature_names, schema)
    known = exported_schemas(path)
    if (schema is not None) != bool(known):
        learned, given = (BY_SCHEMA, BY_NUMBERS) if schema is not None else (BY_NUMBERS, BY_SCHEMA)
        raise InvalidInput(f"{model} learned from {learned}; {path.name} has {given}")
    if schema is not None:
        check_fields(schema, known, model, path.name)
        return list_pages(read_shown_lists(path), Encoder(schema))
    return _checked(impression_pages(read_impressions(path)), session, model, exported_names(path))


def _checked(pages: Iterator[ShownPage], session: Session, model: str, names: tuple[str, ...]) -> Iterator[ShownPage]:
    return checked_first(pages, lambda page: page.query, session, f"ranker of {model}", lambda: names)


def _told(text: str | None) -> Any:
    if text is None:
        return None
    try:
        told = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise InvalidInput(f"--position-bias {text!r}: write probabilities with commas between, as 1,0.5,0.3") from None
    if not ((told > 0) & (told <= 1)).all():
        raise InvalidInput(f"--position-bias {text!r}: every position is seen with a probability above 0, at most 1")
    return told / told[0]


def _text(log: str, name: str, found: ListEstimate) -> str:
    sessions = f" of {found.n_sessions:,} sessions" if found.n_sessions < found.n_pages else ""
    doubts = found.doubts
    examined = " ".join(f"{value:.2f}" for value in doubts.examined)
    lines = [
        f"{log}: {found.n_pages:,} pages{sessions}, {found.n_clicks:,} clicks",
        f"estimator: {found.method}; {found.why}",
        f"examined, by position: {examined} ({KNOWN_BY[doubts.known_by]})",
        "",
    ]
    width = max(len(name), len("current")) + 2
    for outcome in found.ranker:
        lines.append(f"{f'{outcome} per {PER:,} pages':<{width + 22}}{f'from ({found.level:.0%})':>14}{'to':>12}")
        for who, interval in (("current", found.log[outcome]), (name, found.ranker[outcome])):
            value, low, high = (f"{PER * number:,.1f}" for number in interval)
            ends = ("unknown", "unknown") if found.cannot_tell and who == name else (low, high)
            lines.append(f"{who:<{width}}{value:>22}{ends[0]:>14}{ends[1]:>12}")
        lines.append("")
    new, old = found.ndcg
    shares = f"{doubts.beyond:.0%} of its clicks on items that were not shown, {doubts.novel:.0%} on unknown ones"
    lines += [
        f"nDCG by the click model: {old:.3f} as shown, {new:.3f} by the ranker",
        f"rests on {doubts.effective_clicks:,.0f} clicks of equal weight; {shares}; "
        f"the click model is off by a factor of {doubts.calibration:.2f} ± {doubts.calibration_error:.2f}",
        "",
    ]
    return "\n".join([*lines, *list_verdicts(name, found)])


def _plain(name: str, found: ListEstimate) -> dict[str, Any]:
    """As the answers about single choices are, with every outcome and all doubts."""
    clicks = next(iter(found.ranker))

    def estimate(values: dict[str, Any], gains: dict[str, Any] | None) -> dict[str, Any]:
        value, lower, upper = values[clicks]
        gain = None if gains is None else gains[clicks]
        return {
            "value": value,
            "lower": lower,
            "upper": upper,
            "n": found.n_pages,
            "current": found.log[clicks].value,
            "gain": None if gain is None else gain.value,
            "gain_lower": None if gain is None else gain.lower,
            "level": found.level,
            "per_1000_pages": {
                outcome: {end: PER * number for end, number in interval._asdict().items()}
                for outcome, interval in values.items()
            },
            "gain_per_1000_pages": None
            if gains is None
            else {
                outcome: {end: PER * number for end, number in interval._asdict().items()}
                for outcome, interval in gains.items()
            },
        }

    ranker = estimate(found.ranker, found.gain) | {
        "method": found.method,
        "why": found.why,
        "ndcg": found.ndcg[0],
        "diagnostics": found.doubts._asdict(),
        "cannot_tell": found.cannot_tell,
        "warnings": found.warnings,
    }
    current = estimate(found.log, None) | {"ndcg": found.ndcg[1]}
    return {
        "n_rows": found.n_pages,
        "n_sessions": found.n_sessions,
        "n_rewarded": found.n_clicks,
        "unit": "per page",
        "estimates": {"current": current, name: ranker},
        "verdicts": list_verdicts(name, found),
    }
