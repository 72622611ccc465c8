"""`rankloop search study --simulate`: the whole study with simulated visitors, through HTTP."""

import typer

from rankloop.cli.output import print_json
from rankloop.cli.progress import progress_bar


def simulate_study(visits: int, seed: int, as_json: bool) -> None:
    """The study over Cranfield, or over made-up documents where that is not on this machine, and how it ends."""
    from rankloop.experiments.papers.search.collection import collection
    from rankloop.experiments.papers.search.visitor_study import simulated

    name, found, notice = collection()
    if notice:
        typer.echo(f"rankloop: {notice.strip()}", err=True)
    with progress_bar(f"visitors search {name}", "visits") as progress:
        *_, end = simulated(name, found, visits, seed, progress)
    if as_json:
        print_json({"data": name} | end._asdict())
        return
    better = "better" if end.wins > end.losses else "worse"
    verdict = f"the learned order is {better}" if end.p_value < 0.05 else "this can be chance"
    typer.echo(f"{end.visits:,} visits to a search box over {name}: half taught, half compared with the engine's order")
    typer.echo(f"wins {end.wins}, losses {end.losses}, ties {end.ties}: p = {end.p_value:.2g} at any time, {verdict}")
