"""`rankloop evaluate --log`: what a policy would earn, from a log that another one made."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import typer

from rankloop.cli.progress import progress_bar
from rankloop.core.errors import InvalidInput

PICTURES = (".png", ".svg", ".pdf")

if TYPE_CHECKING:
    from rankloop.bandits.policies import Policy
    from rankloop.evaluation.off_policy.estimate import Options
    from rankloop.evaluation.report import Judgement
    from rankloop.logs.table import LogTable


class LogOptions(NamedTuple):
    """How a log is judged."""

    method: str
    bound: str
    level: float
    limit: float
    max_reward: float
    epsilon: float
    ranker: str
    positions: int
    seed: int
    context: tuple[str, ...] = ()  # the columns that tell of the visitor; empty: all that are not something else
    without: tuple[str, ...] = ()  # columns that do not

    def options(self) -> Options:
        from rankloop.evaluation.off_policy.estimate import Options

        return Options(self.level, self.bound, self.limit, self.max_reward, seed=self.seed)  # type: ignore[arg-type]


def evaluate_log(
    log: str,
    model: Path | None,
    column: list[str],
    how: LogOptions,
    save: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    from rankloop.bandits.log_report import plot_judgement
    from rankloop.cli.commands.evaluate_rankings import judged_export, judged_service
    from rankloop.cli.service_log import is_service_log
    from rankloop.data.folder import given_path
    from rankloop.logs.columns import GUESSES, named_columns
    from rankloop.logs.impressions import holds_impressions
    from rankloop.logs.table import LogTable

    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise InvalidInput(f"--plot {plot}: the name must end with .png, .svg or .pdf")
    name = Path(log).name
    with progress_bar(f"judging {name}", "rows") as progress:
        if is_service_log(log):
            judgement = judged_service(log, model, how)
        elif holds_impressions(path := given_path(log)):
            judgement = judged_export(path, model, how)
        else:
            judgement = _judged(
                LogTable(path, **named_columns(column, tuple(GUESSES))),
                model,
                how,
                save,
                lambda rows: progress(rows, rows),
            )
    if plot is not None:
        plot_judgement(judgement, plot)
    written = [*_kept(judgement, save, how.epsilon), *([f"The plot is in {plot}."] if plot is not None else [])]
    if as_json:
        _print_json(judgement)
    else:
        typer.echo(_text(name, judgement, written))


def _kept(judgement: Judgement, save: Path | None, epsilon: float) -> list[str]:
    if save is None or judgement.n_taught == 0:
        return []
    lines = [f"The trained policy is in {save}, its ads and columns in {save}.json."]
    return lines if epsilon > 0 else [*lines, "It does not explore; --epsilon 0.1 keeps tomorrow's log useful."]


def _judged(
    table: LogTable, model: Path | None, how: LogOptions, save: Path | None, watch: Callable[[int], None]
) -> Judgement:
    from rankloop.bandits.log_report import judge, reward_model_of, teach, trained_policy
    from rankloop.bandits.saved_policy import load_policy, save_policy
    from rankloop.evaluation.report import judge_column

    options, method = how.options(), cast("Any", how.method)
    rest: dict[str, Any] = {"method": method, "options": options, "seed": how.seed, "watch": watch}
    if model is not None:
        policy, encoding = load_policy(model)
        rated: dict[str, Policy] = {f"policy of {model.name}": policy}
        reward_model = reward_model_of(table, encoding, method, how.seed)
        return judge(table, encoding, rated, model=reward_model, share=0.5 if reward_model else 0.0, **rest)
    if table.columns.target:
        return judge_column(table, method, options)
    taught = teach(table, how.seed, context=how.context or None, without=how.without)
    if save is not None:
        save_policy(taught, how.epsilon, save, how.seed)
    rated = {"trained policy": trained_policy(taught, how.epsilon)}
    return judge(table, taught.encoding, rated, model=taught.model, **rest)


def _text(name: str, judgement: Judgement, written: list[str]) -> str:
    from rankloop.evaluation.off_policy.overlap import is_off_balance
    from rankloop.evaluation.report import verdicts

    first, unit = next(iter(judgement.estimates.values())), judgement.unit
    half = f", {judgement.n_taught:,} of them to learn from" if judgement.n_taught else ""
    ads = f", {judgement.n_ads} ads" if judgement.n_ads else ""
    width, column = max(map(len, judgement.estimates)) + 2, len(unit.name) + 2
    lines = [f"{name}: {judgement.n_rows:,} {unit.each}s{half}{ads}, {judgement.n_rewarded:,} rewarded"]
    lines += [judgement.context, ""] if judgement.context else [""]
    heads = f"{f'at least ({first.level:.0%})':>18}{f'{unit.each}s count as':>16}"
    lines.append(f"{'policy':<{width}}{unit.name:>{column}}{heads}")
    for policy, found in judgement.estimates.items():
        low = "unknown" if is_off_balance(found.overlap) else unit.of(max(0.0, found.lower))
        lines.append(f"{policy:<{width}}{unit.of(found.value):>{column}}{low:>18}{found.effective_n:>16,.0f}")
    return "\n".join([*lines, "", *verdicts(judgement), *written])


def _print_json(judgement: Judgement) -> None:
    from rankloop.cli.output import print_json
    from rankloop.evaluation.report import PER_PAGE, verdicts

    answer = judgement._asdict() | {"unit": "per page" if judgement.unit == PER_PAGE else "per row"}
    answer["estimates"] = {
        name: {field: _finite(value) for field, value in found._asdict().items()} | {"overlap": found.overlap._asdict()}
        for name, found in judgement.estimates.items()
    }
    answer["verdicts"] = verdicts(judgement)
    print_json(answer)


def _finite(value: object) -> object:
    """Infinite bounds, which JSON does not have, become null."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
