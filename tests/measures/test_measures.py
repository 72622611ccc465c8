"""Measures by hand arithmetic, and the rows that the papers print."""

import itertools
import math
from math import log2

import numpy as np
import pytest

from rankloop.measures import mean_of, parse_measure

# Items 0, 1, 2, 3 with grades 3, 0, 1, 2 are shown in the order 2, 0, 1, 3: grades 1, 3, 0, 2.
RANKING, RELEVANCE = [2, 0, 1, 3], [3.0, 0.0, 1.0, 2.0]
DCG = 1 / log2(2) + 7 / log2(3) + 3 / log2(5)
IDEAL = 7 / log2(2) + 3 / log2(3) + 1 / log2(4)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DCG", DCG),
        ("DCG@2", 1 / log2(2) + 7 / log2(3)),
        ("DCG(gain='linear')", 1 / log2(2) + 3 / log2(3) + 2 / log2(5)),
        ("nDCG", DCG / IDEAL),
        ("nDCG@2", (1 / log2(2) + 7 / log2(3)) / (7 / log2(2) + 3 / log2(3))),
        ("nDCG(gain='linear')@1", 1 / 3),
        ("P@1", 1 / 1),
        ("P@3", 2 / 3),
        ("P@8", 3 / 8),
        ("P", 3 / 4),
        ("P(relevant_from=2)@2", 1 / 2),
        ("Recall@2", 2 / 3),
        ("Recall", 1.0),
        ("AP", (1 / 1 + 2 / 2 + 3 / 4) / 3),
        ("AP@2", (1 / 1 + 2 / 2) / 3),
        ("AP(relevant_from=2)", (1 / 2 + 2 / 4) / 2),
        ("RR", 1 / 1),
        ("RR(relevant_from=3)", 1 / 2),
        ("RR(relevant_from=3)@1", 0.0),
        ("AUC", 2 / 3),
        ("AUCLoss", 1 / 3),
        ("AUC(relevant_from=2)", 1 / 4),
        ("ERR(max_grade=3)", 1 / 8 / 1 + 7 / 8 * 7 / 8 / 2 + 7 / 8 * 1 / 8 * 3 / 8 / 4),
        ("ERR(max_grade=3)@2", 1 / 8 / 1 + 7 / 8 * 7 / 8 / 2),
        ("ERU(half_life=2)", 1 + 3 / 2 + 2 / 8),
        ("ERU(half_life=3, neutral=1)", 2 * 2**-0.5 + 1 * 2**-1.5),
        ("NERU(half_life=2)", (1 + 3 / 2 + 2 / 8) / (3 + 2 / 2 + 1 / 4)),
        ("NERU(half_life=2)@1", 1 / 3),
        ("SumLoss", 1 * 1 + 2 * 3 + 3 * 0 + 4 * 2),
        ("PairwiseLoss", 1 + 1 + 1),  # 1 above 3, 1 above 2, 0 above 2
    ],
)
def test_by_hand(name: str, value: float) -> None:
    measure = parse_measure(name)
    assert measure(np.array(RANKING), np.array(RELEVANCE)) == pytest.approx(value, rel=1e-14)
    assert measure(RANKING, RELEVANCE) == pytest.approx(value, rel=1e-14)  # type: ignore[arg-type]


def columns(m: int) -> list[tuple[float, ...]]:
    return list(itertools.product((0.0, 1.0), repeat=m))


def test_table_1_of_top_1_feedback() -> None:
    """Chaudhuri and Tewari (2015), Table 1: SumLoss for three items; a row gives the rank of each item."""
    table = {
        (1, 2, 3): [0, 3, 2, 5, 1, 4, 3, 6],
        (1, 3, 2): [0, 2, 3, 5, 1, 3, 4, 6],
        (2, 1, 3): [0, 3, 1, 4, 2, 5, 3, 6],
        (2, 3, 1): [0, 1, 3, 4, 2, 3, 5, 6],
        (3, 1, 2): [0, 2, 1, 3, 3, 5, 4, 6],
        (3, 2, 1): [0, 1, 2, 3, 3, 4, 5, 6],
    }
    for ranks, row in table.items():
        ranking = np.argsort(ranks)
        assert [parse_measure("SumLoss")(ranking, np.array(r)) for r in columns(3)] == row


def test_ndcg_and_ap_rows_of_top_1_feedback() -> None:
    """The same paper, proof of Lemma 11, first row of NDCG and MAP; an all-zero relevance counts 1."""
    l3 = log2(3)
    ndcg = [1, 1 / 2, 1 / l3, (1 + l3 / 2) / (1 + l3), 1, 3 / (2 * (1 + 1 / l3)), 1, 1]
    ap = [1, 1 / 3, 1 / 2, 7 / 12, 1, 5 / 6, 1, 1]
    first = np.arange(3)
    assert [parse_measure("nDCG(empty='one')")(first, np.array(r)) for r in columns(3)] == pytest.approx(ndcg)
    assert [parse_measure("AP(empty='one')")(first, np.array(r)) for r in columns(3)] == pytest.approx(ap)


def test_auc_rows_of_top_1_feedback() -> None:
    """The same proof, four items: relevances by number of relevant items, first and last ranking."""
    by_count = sorted(columns(4), key=sum)
    first = [0, 1, 2 / 3, 1 / 3, 0, 1, 3 / 4, 1 / 2, 1 / 2, 1 / 4, 0, 1, 2 / 3, 1 / 3, 0, 0]
    last = [0, 0, 1 / 3, 2 / 3, 1, 0, 1 / 4, 1 / 2, 1 / 2, 3 / 4, 1, 0, 1 / 3, 2 / 3, 1, 0]
    loss = parse_measure("AUCLoss(empty='one')")
    relevances = [np.array(r) for r in by_count]
    assert [loss(np.arange(4), r) for r in relevances] == pytest.approx(first, abs=1e-15)
    assert [loss(np.arange(4)[::-1].copy(), r) for r in relevances] == pytest.approx(last, abs=1e-15)


def test_sum_loss_and_pairwise_loss_differ_by_a_number_for_binary_grades() -> None:
    for r in columns(4):
        relevance = np.array(r)
        differences = {
            parse_measure("SumLoss")(np.array(p), relevance) - parse_measure("PairwiseLoss")(np.array(p), relevance)
            for p in itertools.permutations(range(4))
        }
        assert len(differences) == 1


EMPTY = {
    "nDCG": (0, 1), "nDCG@2": (0, 1), "NERU": (0, 1), "P@2": (0, 1), "P": (0, 1), "Recall": (0, 1), "AP": (0, 1),
    "AUC": (0, 1), "RR": (0, 1), "ERR": (0, 1), "AUCLoss": (1, 0),
    "DCG": (0, 0), "ERU": (0, 0), "SumLoss": (0, 0), "PairwiseLoss": (0, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("relevance", [[0.0, 0.0, 0.0], [-1.0, -2.0, 0.0], []])
def test_queries_without_a_relevant_item(name: str, relevance: list[float]) -> None:
    ranking, grades, (zero, one) = np.arange(len(relevance)), np.array(relevance), EMPTY[name]
    kind, at, cutoff = name.partition("@")
    assert parse_measure(name)(ranking, grades) == zero
    assert parse_measure(f"{kind}(empty='one'){at}{cutoff}")(ranking, grades) == one
    assert math.isnan(parse_measure(f"{kind}(empty='skip'){at}{cutoff}")(ranking, grades))


def test_a_relevant_item_below_the_cutoff_is_not_an_empty_query() -> None:
    for name in EMPTY:
        kind = name.partition("@")[0]
        if "cutoff" in type(parse_measure(name)).__dataclass_fields__:
            assert parse_measure(f"{kind}(empty='skip')@1")(np.array([1, 0]), np.array([1.0, 0.0])) == 0, name


def test_all_items_relevant_is_perfect_for_auc_whatever_the_rule() -> None:
    for rule in ("zero", "one", "skip"):
        assert parse_measure(f"AUC(empty='{rule}')")(np.arange(3), np.ones(3)) == 1
        assert parse_measure(f"AUCLoss(empty='{rule}')")(np.arange(3), np.ones(3)) == 0


def test_the_mean_leaves_skipped_queries_out() -> None:
    values = parse_measure("RR(empty='skip')").of_scores([3, 2, 1, 5, 4], [0, 1, 0, 0, 0], [0, 3, 5])
    assert mean_of(values) == 1 / 2
    assert math.isnan(mean_of(values[1:]))
    assert mean_of(parse_measure("RR").of_scores([3, 2, 1, 5, 4], [0, 1, 0, 0, 0], [0, 3, 5])) == 1 / 4
