"""Trees from clicks: a click counts by how unlikely its position was examined, lists of one query stay together."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from rankloop.core.errors import InvalidInput
from rankloop.features import Schema
from rankloop.logs.reader import lists_in
from rankloop.training.clicks.train import train_click_trees
from rankloop.training.trees import TreeRanker, TreeSettings, fold_of
from rankloop.training.trees.booster_file import NamedBooster

pytest.importorskip("lightgbm")
SMALL = TreeSettings(n_trees=20, n_leaves=4, learning_rate=0.2, options={"min_data_in_leaf": 5})


def written(folder, n_queries=12, n_lists=200, seed=0):
    """Lists of 4 items in random order; the second feature of an item makes it attractive, 1 / position examined."""
    rng, lines = np.random.default_rng(seed), ["impression,query,item,position,click,noise,good"]
    for number in range(n_lists):
        query, rows = number % n_queries, rng.permutation(4)
        for position, item in enumerate(rows):
            good = item in (query % 4, (query + 1) % 4)
            click = rng.random() < (0.9 if good else 0.1) / (1 + position)
            lines.append(f"{number},q{query},q{query}i{item},{position},{int(click)},{(item * 7) % 3},{int(good)}")
    path = folder / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_they_rank_by_what_is_clicked_for_its_own_sake(tmp_path):
    log = lists_in(written(tmp_path))
    trees = train_click_trees(log, position_bias=[1, 1 / 2, 1 / 3, 1 / 4], n_folds=2, settings=SMALL)
    scores = trees.scores([[0, 1], [1, 1], [0, 0], [1, 0]], "never asked")
    assert scores[:2].min() > scores[2:].max()
    assert trees.query_ids == {f"q{i}" for i in range(12)}


def test_lists_of_a_query_are_in_one_fold(tmp_path):
    """Of a query's clicks nothing reaches the booster that scores it: with other clicks that one is as it was."""
    log = lists_in(written(tmp_path))
    query, names = log.query_numbers()
    name = names[0]
    other = dataclasses.replace(log, clicked=np.where(query == 0, 1.0 - log.clicked, log.clicked))
    bias = [1, 1 / 2, 1 / 3, 1 / 4]
    one, two = (train_click_trees(each, position_bias=bias, n_folds=3, settings=SMALL) for each in (log, other))
    same = [a == b for a, b in zip(one.texts, two.texts)]
    assert same == [fold == fold_of(name, 3) for fold in range(3)]


def test_clicks_weigh_by_their_position(tmp_path):
    """Who stands low is examined less: with the bias given, an item that was only ever shown low rises."""
    rows, clicked = [[0.0], [1.0]], []
    rng = np.random.default_rng(1)
    n_lists = 400
    for _ in range(n_lists):
        clicked += [float(rng.random() < 0.3), float(rng.random() < 0.5 * 0.4)]  # seen half the time
    lists = np.repeat(np.arange(n_lists), 2)
    columns = {"position": np.tile([0, 1], n_lists), "click": clicked, "good": np.tile([0.0, 1.0], n_lists)}
    log = lists_in(pa.table({"list": lists, **columns}))
    alike = train_click_trees(log, position_bias=[1, 1], n_folds=2, settings=SMALL).scores(rows)
    fair = train_click_trees(log, position_bias=[1, 0.5], n_folds=2, settings=SMALL).scores(rows)
    assert alike[0] > alike[1]
    assert fair[1] > fair[0]


def test_a_log_without_clicks_is_refused(tmp_path):
    log = lists_in(written(tmp_path))
    with pytest.raises(InvalidInput, match="no click"):
        train_click_trees(dataclasses.replace(log, clicked=0 * log.clicked), position_bias=[1, 1, 1, 1], settings=SMALL)


def test_a_feature_can_be_kept_from_the_trees(tmp_path):
    log, bias = lists_in(written(tmp_path)), [1, 1 / 2, 1 / 3, 1 / 4]
    trees = train_click_trees(log, position_bias=bias, n_folds=2, settings=SMALL, without=["noise"])
    scores = trees.scores([[0.0], [1.0]])
    assert scores[1] > scores[0]
    path = tmp_path / "log.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("\n".join(",".join([*line[:5], f"{line[5]}{row}", line[6]]) for row, line in enumerate(lines)))
    path.write_text(path.read_text().replace("noise0", "noise"))
    given = {"position_bias": bias, "n_folds": 2, "settings": SMALL}
    other = train_click_trees(path, without=["noise"], features=["noise"], **given)
    assert other.hash == trees.hash
    with pytest.raises(InvalidInput, match="no feature 'nose'; did you mean 'noise'"):
        train_click_trees(log, without=["nose"], position_bias=bias)


BRANDS = ["acme", "bolt", "coral", "Élan"]


def written_shop(folder, n_lists=300, seed=0):
    """Lists of 5 items: clicks prefer two brands, titles with "oak" and items without a price."""
    rng, lines = np.random.default_rng(seed), ["impression,query,item,position,click,price,brand,title"]
    for number in range(n_lists):
        for position, item in enumerate(rng.permutation(16)[:5]):
            brand, price = BRANDS[item % 4], "" if item % 5 == 0 else str(item)
            title = f"{['oak', 'steel'][item // 8]} chair {item % 8}"
            good = 0.1 + 0.3 * (item % 4 in (0, 2)) + 0.3 * (item < 8) + 0.2 * (item % 5 == 0)
            click = int(rng.random() < good / (1 + position / 2))
            lines.append(f"{number},q{number % 30},i{item},{position + 1},{click},{price},{brand},{title}")
    (folder / "shop.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "shop.csv"


def test_categories_gaps_and_texts_are_split_as_they_are(tmp_path):
    trees = train_click_trees(written_shop(tmp_path), n_folds=3, settings=SMALL)
    kinds = {column.field: (column.kind, column.width) for column in trees.columns}
    assert kinds == {"price": ("number", 1), "brand": ("category", 1), "title": ("words", 32)}
    assert next(column for column in trees.columns if column.field == "brand").values == tuple(BRANDS)
    assert any("num_cat=1" in text for text in trees.texts)
    rows = [{"price": 3, "brand": brand, "title": "oak chair"} for brand in BRANDS]
    rows += [rows[0] | {"title": "steel chair"}, {"brand": "acme", "title": "oak chair"}]
    rows += [rows[1] | {"brand": "never seen"}]
    scores = trees.scores_of_values(rows)
    assert min(scores[0], scores[2]) > max(scores[1], scores[3])
    assert scores[0] > scores[4]
    assert scores[5] > scores[0]
    assert np.isfinite(scores).all()
    trees.save(tmp_path / "trees.json")
    loaded = TreeRanker.load(tmp_path / "trees.json")
    assert (loaded.hash, loaded.columns) == (trees.hash, trees.columns)
    named = NamedBooster((tmp_path / "trees.json").read_bytes(), ["stock", "title", "brand", "price"])
    assert np.array_equal(named.scores_of_values(rows, "new"), scores)
    assert named.text_fields == ("brand", "title")
    with pytest.raises(InvalidInput, match="needs texts by name"):
        named.scores(np.zeros((1, 4)), "new")


def test_without_leaves_out_all_columns_of_a_text(tmp_path):
    log = lists_in(written_shop(tmp_path))
    trees = train_click_trees(log, n_folds=2, settings=SMALL, without=["title"])
    assert trees.names == ("price", "brand")
    assert len(trees.scores_of_values([{}, {"price": 1}])) == 2
    by_schema = train_click_trees(log, Schema({"title": "words", "item": "id"}), n_folds=2, settings=SMALL)
    assert by_schema.names == ("title",)
    with pytest.raises(InvalidInput, match="trees need numbers"):
        train_click_trees(log, Schema({"item": "id"}), n_folds=2, settings=SMALL)


def test_few_queries_make_fewer_folds(tmp_path):
    path = written(tmp_path, n_queries=6)
    trees = train_click_trees(path, position_bias=[1, 1 / 2, 1 / 3, 1 / 4], settings=SMALL)
    assert 2 <= len(trees.texts) < 5
