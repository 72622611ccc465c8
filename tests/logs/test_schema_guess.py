"""The schema that a log suggests, column by column, and what it leaves out."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features import Schema
from rankloop.logs.list_log import ListLog
from rankloop.logs.list_table import read_list_table
from rankloop.logs.numeric_features import other_than_numbers
from rankloop.logs.schema_guess import guessed_schema

WORDS = ["red", "blue", "warm", "light", "shoe", "sock", "hat", "coat"]


def shop(folder: Path, n_lists: int = 60, **more: Any) -> ListLog:
    """Lists of five of forty products; `more` are columns as functions of (list, product, click)."""
    rng = random.Random(0)
    names = ["impression", "query", "sku", "position", "click", "price", "brand", "title", "sale", "added", "segment"]
    lines = [",".join([*names, *more])]
    for number in range(n_lists):
        query, segment = f"{rng.choice(WORDS[:4])} {rng.choice(WORDS[4:])}", rng.choice(["sport", "office"])
        for position, product in enumerate(rng.sample(range(40), 5)):
            click = int(rng.random() < 0.3)
            own = [500 + 37 * product, ["Acme", "Bolt Inc", "Cora"][product % 3]]
            own += [f"{WORDS[product % 4]} {WORDS[4 + product % 3]} {product}", ["yes", "no"][product % 2]]
            cells = [number, query, f"{product:05}", position, click, *own, f"2026-0{1 + product % 9}-11", segment]
            cells += [make(number, product, click) for make in more.values()]
            lines.append(",".join(map(str, cells)))
    (folder / "shop.csv").write_text("\n".join(lines) + "\n")
    return read_list_table(folder / "shop.csv")


def test_a_shop(tmp_path: Path) -> None:
    guess = guessed_schema(shop(tmp_path))
    assert guess.schema.to_plain() == {
        "features": {
            "sku": "id",
            "price": "number",
            "brand": "category",
            "title": "words",
            "sale": "flag",
            "added": "date",
        },
        "context": {"query": "words", "segment": "category"},
        "crosses": ["query*brand", "query*title", "query*sku", "segment*brand"],
        "bits": 20,
    }
    assert (guess.left_out, guess.outcomes) == ({}, {})
    assert guess.roles["item"] == "sku"
    assert guess.reasons["segment"] == "2 different texts; the same in each list"
    assert set(guess.reasons) == {*guess.schema.features, *guess.schema.context}


def test_the_file_that_is_written_is_read_again(tmp_path: Path) -> None:
    schema = guessed_schema(shop(tmp_path)).schema
    (tmp_path / "shop.toml").write_text(schema.to_toml())
    assert Schema.from_toml(tmp_path / "shop.toml") == schema


def test_outcomes_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    table = shop(tmp_path, purchased=lambda number, product, click: click * (number % 3 == 0), seen=lambda n, p, c: c)
    guess = guessed_schema(table)
    assert guess.outcomes == {"purchased": "named like an outcome", "seen": "the same as the click"}
    assert not {"purchased", "seen"} & {*guess.schema.features, *guess.schema.context}
    assert ("seen", "left out", "", "an outcome: the same as the click") in guess.lines()
    asked = guessed_schema(table, ["purchased"])
    assert asked.schema.features.keys() - guess.schema.features.keys() == {"purchased"}
    with pytest.raises(InvalidInput, match="no column 'bought'"):
        guessed_schema(table, ["bought"])


@pytest.mark.parametrize(
    ("make", "part", "kind"),
    [
        (lambda number, product, click: product % 7 * 0.5, "features", "number"),
        (lambda number, product, click: number % 9, "context", "number"),
        (lambda number, product, click: ["new", "old"][number % 2], "context", "category"),
        (lambda number, product, click: "", "left out", ""),
        (lambda number, product, click: "EUR", "left out", ""),
        (lambda number, product, click: f"s{number}", "left out", ""),  # differs in every list
        (lambda number, product, click: f"r{number}-{product}", "left out", ""),  # differs in every row
        (lambda number, product, click: f"u{number % 30}", "context", "category"),
        (lambda number, product, click: product % 2 == 0, "features", "flag"),
        (lambda number, product, click: "" if product % 5 else product, "features", "number"),
        (lambda number, product, click: f'"[{product}.5, 2]"', "features", "vector"),
        (lambda number, product, click: f'"[""c{product % 3}"", ""x""]"', "features", "category"),
        (lambda number, product, click: f"2026-11-{1 + number % 9:02}", "left out", ""),  # when it was asked
    ],
)
def test_kinds(tmp_path: Path, make: Any, part: str, kind: str) -> None:
    found = {name: (part, kind) for name, part, kind, _ in guessed_schema(shop(tmp_path, extra=make)).lines()}
    assert found["extra"] == (part, kind)


def test_names_tell_ids_and_many_values_categories(tmp_path: Path) -> None:
    log = shop(tmp_path, user_id=lambda n, p, c: n % 30, category_id=lambda n, p, c: 100 + p % 6)
    found = guessed_schema(log, ["user_id"]).schema
    assert found.context["user_id"] == Schema({"a": "id"}).features["a"]
    unasked = guessed_schema(log)
    assert "user_id" not in unasked.schema.context
    assert "erased" in unasked.left_out["user_id"]
    assert found.features["category_id"] == Schema({"a": "category"}).features["a"]
    assert "user_id*category_id" in found.crosses
    assert "user_id*sku" not in found.crosses  # never all with all


@pytest.mark.parametrize("number", [1510, 0.5, 20260111])
def test_numbers_that_name_queries_and_users_are_names(tmp_path: Path, number: float) -> None:
    def name(list_number: int, product: int, click: int) -> float:
        return number + list_number % 23

    def id_with_gaps(list_number: int, product: int, click: int) -> str:
        return "none" if product == 7 else str(number + product)

    table = shop(tmp_path, term=name, member=name, seller_id=id_with_gaps)
    named = {"query": "term", "user": "member"}
    log = read_list_table(tmp_path / "shop.csv", columns=named, without=["query", "added"])
    assert table.values["member"][0] == number
    guess = guessed_schema(log, ["member"])
    plain = guess.schema.to_plain()
    assert plain["context"]["term"] == plain["context"]["member"] == "category"
    assert plain["features"]["seller_id"] in ("id", "category")
    assert "member" in guessed_schema(log).left_out
    typed = log.typed_by(guess.schema)
    assert {page.context["term"] for page in typed.lists(guess.schema)} == {str(number + n) for n in range(23)}


def test_there_must_be_something_of_the_items(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("impression,position,click,segment\n1,1,1,a\n1,2,0,a\n2,1,0,b\n2,2,1,b\n")
    with pytest.raises(InvalidInput, match="no column with a field of the items"):
        guessed_schema(read_list_table(tmp_path / "log.csv"))


def test_numbers_that_only_grow_from_list_to_list_are_times(tmp_path: Path) -> None:
    log = shop(tmp_path, seconds=lambda number, product, click: 1000 + 7 * number)
    guess = guessed_schema(log)
    assert "seconds" not in {**guess.schema.features, **guess.schema.context}
    assert guess.left_out["seconds"].startswith("a time")


def test_a_log_of_ids_alone_gets_a_schema(tmp_path: Path) -> None:
    rng, path = random.Random(1), tmp_path / "ids.csv"
    lines = ["page,seconds,query,position,url,clicked"]
    for page in range(60):
        urls = rng.sample(range(100, 140), 5)
        lines += [f"{page},{60 * page},{page % 6},{place},{url},{place % 2}" for place, url in enumerate(urls, 1)]
    path.write_text("\n".join(lines))
    log = read_list_table(path)
    assert other_than_numbers(log) == ["query", "url"]
    assert guessed_schema(log).schema.to_plain()["features"] == {"url": "id"}
