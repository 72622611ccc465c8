"""`rankloop list`: list everything that is registered by name."""

import re
import shutil
import sys
from typing import Annotated, Any

import typer

from rankloop.cli.app import command
from rankloop.cli.options import AsJson, Imports, argument
from rankloop.cli.output import print_json
from rankloop.core.errors import InvalidInput
from rankloop.core.registry.specs import toml_value


@command("Start here", name="list")
def list_all(
    family: Annotated[str | None, argument("WHAT", "learners, measures, streams, fields …, or a single name.")] = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """List learners, measures, streams, click models and everything else that has a name.

    Each has one line; --json adds the parameters and their defaults. Fields are the kinds of values in a schema. The
    name of a single thing (`rankloop list newton_pairs`) shows its parameters and an example.
    """
    from rankloop.core.registry import catalogue
    from rankloop.core.registry.specs import nearest

    families = catalogue()
    if family is not None:
        family = next((name for name in families if family in (name, _singular(name))), family)
        named = {name: [member for member in members if member["kind"] == family] for name, members in families.items()}
        single = {name: members for name, members in named.items() if members}
        if family not in families and not single:
            names = [*families, *(member["kind"] for members in families.values() for member in members)]
            raise InvalidInput(f"nothing has the name {family!r}{nearest(family, names)}")
        if family not in families and not as_json:
            _print_single(single)
            return
        families = {family: families[family]} if family in families else single
    if as_json:
        print_json(families)
    else:
        _print(families)


def _singular(family: str) -> str:
    return family.removesuffix("ies") + "y" if family.endswith("ies") else family.removesuffix("s")


def _print_single(families: dict[str, list[dict[str, Any]]]) -> None:
    """Print the summary of a thing, its parameters with their defaults, and an example."""
    from rankloop.core.registry import lookup

    for family, members in families.items():
        for member in members:
            typer.echo(f"{member['kind']} ({_singular(family)}): {member['summary']}")
            for part in member.get("parameters", ()):
                default = f" = {part['default']!r}" if "default" in part else ""
                kind = re.sub(r"<class '([\w.]+)'>|typing\.", r"\1", part["type"])
                typer.echo(f"  {part['name']}: {kind}{default}")
            if not member.get("parameters"):
                continue
            # A spec that can be built, with the first parameters that a user may change.
            examples: Any = getattr(lookup(member["kind"], _singular(family)).cls, "examples", ({},))
            defaults = {part["name"]: part.get("default") for part in member["parameters"]}
            needed: dict[str, Any] = {part["name"]: "…" for part in member["parameters"] if "default" not in part}
            plain = [(name, value) for name, value in defaults.items() if isinstance(value, bool | int | float | str)]
            parameters = dict(examples[0]) or needed or dict(plain[:1])
            values = ", ".join(f"{name}={toml_value(value)}" for name, value in parameters.items())
            typer.echo(f"for example: {member['kind']}({values})" if values else f"for example: {member['kind']}")


def _print(families: dict[str, list[dict[str, Any]]]) -> None:
    """Print one line for each thing; on a terminal it ends with the window."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    for name, members in families.items():
        typer.secho(name, bold=True)
        width = max(len(member["kind"]) for member in members)
        for member in members:
            kind = typer.style(f"{member['kind']:<{width}}", fg="cyan")
            typer.echo(f"{kind} {member['summary'][: max(columns - width - 1, 0)]}")
        if len(families) > 1:
            typer.echo()
