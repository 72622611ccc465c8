"""`rankloop evaluate --log`: what a policy would earn, from a log that another one made."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from rankloop.cli.progress import progress_bar

if TYPE_CHECKING:
    from rankloop.ads.judging import Judgement
    from rankloop.ads.policies import Policy
    from rankloop.evaluation.log_table import LogTable


class LogOptions(NamedTuple):
    """How a log is judged."""

    method: str
    bound: str
    level: float
    limit: float
    epsilon: float
    seed: int


def evaluate_log(
    log: Path,
    model: Path | None,
    column: list[str],
    how: LogOptions,
    save: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    from rankloop.ads.plot import plot_judgement
    from rankloop.data.folder import data_path
    from rankloop.evaluation.impressions import holds_impressions
    from rankloop.evaluation.log_table import LogTable

    path = data_path(str(log))
    with progress_bar(f"judging {log.name}", "rows") as progress:
        if holds_impressions(path):
            judgement = _judged_rankings(path, model, how)
        else:
            judgement = _judged(LogTable(path, **_named(column)), model, how, save, lambda rows: progress(rows, rows))
    if plot is not None:
        plot_judgement(judgement, plot)
    typer.echo(_json(judgement) if as_json else _text(path.name, judgement))


def _named(column: list[str]) -> dict[str, str]:
    roles = dict(part.partition("=")[::2] for part in column)
    known = ("action", "reward", "propensity", "position", "target")
    for role, name in roles.items():
        if role not in known or not name:
            raise typer.BadParameter(f"--column {role}={name}: write one of {', '.join(known)}, then =, then a column")
    return roles


def _judged(
    table: LogTable, model: Path | None, how: LogOptions, save: Path | None, watch: Callable[[int], None]
) -> Judgement:
    from rankloop.ads.judging import judge, judge_column, teach, trained_policy
    from rankloop.ads.saved_policy import load_policy, save_policy
    from rankloop.evaluation.estimates import Options

    options = Options(level=how.level, bound=how.bound, limit=how.limit, seed=how.seed)  # type: ignore[arg-type]
    method: Any = how.method
    if model is not None:
        policy, encoding = load_policy(model)
        rated: dict[str, Policy] = {f"policy of {model.name}": policy}
        return judge(table, encoding, rated, method=method, options=options, share=0.0, seed=how.seed, watch=watch)
    if table.columns.target:
        return judge_column(table, method, options)
    taught = teach(table, how.seed)
    if save is not None:
        save_policy(taught, how.epsilon, save, how.seed)
    rated = {"trained policy": trained_policy(taught, how.epsilon)}
    return judge(
        table, taught.encoding, rated, method=method, options=options, model=taught.model, seed=how.seed, watch=watch
    )


def _judged_rankings(path: Path, model: Path | None, how: LogOptions) -> Judgement:
    """A saved ranker on an export of impressions, by the probabilities of whole rankings."""
    from rankloop.ads.judging import judge_rankings
    from rankloop.core.saving import load
    from rankloop.evaluation.estimates import Options
    from rankloop.evaluation.impressions import read_impressions

    if model is None:
        raise typer.BadParameter(f"{path.name} holds rankings: name the saved ranker to judge, before --log")
    options = Options(level=how.level, bound=how.bound, limit=how.limit, seed=how.seed)  # type: ignore[arg-type]
    method: Any = how.method
    return judge_rankings(load(model), read_impressions(path), f"ranker of {model.name}", method, options)


def _text(name: str, judgement: Judgement) -> str:
    from rankloop.ads.judging import amount, verdicts

    first = next(iter(judgement.estimates.values()))
    half = f", {judgement.n_taught:,} of them to learn from" if judgement.n_taught else ""
    ads = f", {judgement.n_ads} ads" if judgement.n_ads else ""
    width = max(map(len, judgement.estimates)) + 2
    lines = [f"{name}: {judgement.n_rows:,} rows{half}{ads}, {judgement.n_rewarded:,} rewarded", ""]
    lines.append(f"{'policy':<{width}}{'per row':>10}{f'at least ({first.level:.0%})':>18}{'rows count as':>16}")
    for policy, found in judgement.estimates.items():
        low = max(0.0, found.lower)
        lines.append(f"{policy:<{width}}{amount(found.value):>10}{amount(low):>18}{found.effective_n:>16,.0f}")
    return "\n".join([*lines, "", *verdicts(judgement)])


def _json(judgement: Judgement) -> str:
    import msgspec

    from rankloop.ads.judging import verdicts

    answer = judgement._asdict()
    answer["estimates"] = {
        name: {field: _finite(value) for field, value in found._asdict().items()} | {"overlap": found.overlap._asdict()}
        for name, found in judgement.estimates.items()
    }
    answer["verdicts"] = verdicts(judgement)
    return msgspec.json.encode(answer).decode()


def _finite(value: object) -> object:
    """Infinite bounds, which JSON does not have, become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
