"""Streams of queries: shapes, shares, seeds, shuffles."""

from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.special import ndtr

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.core.kernels import normals
from rankloop.core.protocols import Stream
from rankloop.core.registry import build, spec_of
from rankloop.core.types import Problem
from rankloop.data import data_folder
from rankloop.data.dataset import Dataset
from rankloop.data.folder import absence_notice
from rankloop.simulate.streams.drift import Drift
from rankloop.simulate.streams.fixed_items import FlippedRelevance, NoisyRelevance
from rankloop.simulate.streams.letor import Letor
from rankloop.simulate.streams.lower_bound import LowerBound
from rankloop.simulate.streams.pool import HeldOut
from rankloop.simulate.streams.simulated_queries import (
    LinearGaussian,
    Separable,
    WebSearch,
    _grades_by_share,
    shuffled_rounds,
)

FIXED = [FlippedRelevance(), NoisyRelevance(), FlippedRelevance(n_items=3, n_relevant=1, flip=0.3)]
FEATURED = [Separable(n_queries=50), LinearGaussian(n_queries=50), WebSearch(n_queries=50)]


def rounds(stream, n, seed=0):
    return list(islice(stream.rounds(np.random.default_rng(seed)), n))


@pytest.mark.parametrize(
    "stream", [*FIXED, *FEATURED, Drift(inner=FEATURED[0], at=3), HeldOut(inner=FEATURED[1])], ids=repr
)
def test_what_every_stream_promises(stream):
    assert isinstance(stream, Stream)
    assert build(spec_of(stream), "stream") == stream
    problem = stream.problem
    for query, relevance in rounds(stream, 300):
        assert query.features.shape == (len(relevance), problem.n_features)
        assert query.features.dtype == relevance.dtype == np.float64
        assert query.features.flags.c_contiguous
        assert query.features.flags.writeable
        assert relevance.flags.c_contiguous
        assert relevance.flags.writeable
        assert relevance.min() >= 0
        assert relevance.max() <= problem.max_grade
        assert problem.n_items in (None, len(relevance))
    again, other = rounds(stream, 300), rounds(stream, 300, seed=1)
    first = rounds(stream, 300)
    assert all(
        (a[1] == b[1]).all() and (a[0].features == b[0].features).all() for a, b in zip(first, again, strict=True)
    )
    assert any((a[1] != b[1]).any() for a, b in zip(first, other, strict=True))


def grades(stream, n, seed=0):
    """Those of the first n rounds, a row each."""
    return np.array([relevance for _, relevance in rounds(stream, n, seed)])


def test_flips_happen_as_often_as_said():
    stream, n = FlippedRelevance(n_items=10, n_relevant=4, flip=0.1), 20_000
    means = grades(stream, n).mean(axis=0)
    error = 4.5 * np.sqrt(0.1 * 0.9 / n)
    assert np.sum(np.abs(means - 0.9) < error) == 4
    assert np.sum(np.abs(means - 0.1) < error) == 6


def test_noise_crosses_the_threshold_as_often_as_it_must():
    n = 20_000
    means = grades(NoisyRelevance(sd=0.25), n).mean(axis=0)
    wrong = ndtr(-0.5 / 0.25)
    error = 4.5 * np.sqrt(wrong * (1 - wrong) / n)
    assert np.sum(np.abs(means - (1 - wrong)) < error) == 5
    assert np.sum(np.abs(means - wrong) < error) == 5
    clean = grades(NoisyRelevance(sd=0.0), 50)
    assert (clean == clean[0]).all()
    assert clean[0].sum() == 5


def test_relevant_items_are_drawn_not_the_first_ones():
    stream, n = FlippedRelevance(flip=0.0), 4000
    share = np.mean([grades(stream, 1, seed)[0] for seed in range(n)], axis=0)
    assert np.abs(share - 5 / 20).max() < 5 * np.sqrt(0.25 * 0.75 / n)


def test_separable_is_separated_and_short():
    stream = Separable(n_queries=100)
    data, weights = stream.dataset_and_weights(np.random.default_rng(3))
    lengths = np.sqrt((data.features**2).sum(axis=1))
    assert lengths.max() == pytest.approx(1.0)
    scores = data.features @ weights
    bands = [scores[data.relevance == grade] for grade in range(5)]
    gaps = [upper.min() - lower.max() for lower, upper in pairwise(bands)]
    # the distance of two grades is 1 before the division that makes the longest vector 1
    scale = np.mean([np.mean(upper) - np.mean(lower) for lower, upper in pairwise(bands)])
    assert min(gaps) >= stream.margin * scale * 0.98
    assert [len(band) for band in bands] == [400] * 5
    assert data.features.tolist() == stream.dataset(np.random.default_rng(3)).features.tolist()


def test_linear_gaussian_has_the_shares_and_the_signal():
    data = LinearGaussian(n_queries=300).dataset(np.random.default_rng(0))
    shares = np.bincount(data.relevance.astype(int)) / len(data.relevance)
    np.testing.assert_allclose(shares, [0.5, 0.25, 0.15, 0.07, 0.03], atol=1e-3)
    assert data.features.shape == (6000, 25)
    assert abs(data.features.mean()) < 5 / np.sqrt(data.features.size)
    assert data.features.std() == pytest.approx(1, abs=5 / np.sqrt(data.features.size))
    assert explained(data.features, data.relevance) > 0.5
    clean = LinearGaussian(n_queries=300, noise=0.0).dataset(np.random.default_rng(0))
    assert explained(clean.features, clean.relevance) > explained(data.features, data.relevance)


def test_web_search_has_the_shares_and_is_not_linear():
    data = WebSearch(n_queries=300).dataset(np.random.default_rng(0))
    shares = np.bincount(data.relevance.astype(int)) / len(data.relevance)
    np.testing.assert_allclose(shares, [0.26, 0.36, 0.28, 0.08, 0.02], atol=1e-3)
    assert data.features.min() >= 0
    assert data.features.max() <= 1
    quiet = WebSearch(n_queries=300, noise=0.0).dataset(np.random.default_rng(0))
    centred = quiet.features - 0.5
    with_products = np.hstack([centred, centred * np.roll(centred, 1, axis=1)])
    # the latent value is linear + half as much nonlinear: variances 1 and 1/4
    assert explained(with_products, quiet.relevance) > explained(centred, quiet.relevance) + 0.1


def explained(features, values) -> float:
    """The share of the variance that a linear fit explains."""
    design = np.column_stack([features, np.ones(len(features))])
    residual = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return 1 - residual.var() / values.var()


def test_items_are_shuffled_and_rows_stay_together():
    data = Dataset.of(np.arange(6.0)[:, None] * [1, 10], np.arange(6.0), [0, 4, 6], ["a", "b"])
    positions, queries, n = np.zeros((4, 4)), 0, 6000
    for query, relevance in islice(shuffled_rounds(data, np.random.default_rng(0)), n):
        assert (query.features[:, 0] == relevance).all()
        assert (query.features[:, 1] == 10 * relevance).all()
        if query.id == "a":
            queries += 1
            assert sorted(relevance) == [0, 1, 2, 3]
            positions[relevance.astype(int), np.arange(4)] += 1
        else:
            assert sorted(relevance) == [4, 5]
    assert abs(queries - n / 2) < 4.5 * np.sqrt(n / 4)
    assert np.abs(positions / queries - 1 / 4).max() < 4.5 * np.sqrt(3 / 16 / queries)


def test_candidates_are_a_uniform_part():
    data = Dataset.of(np.arange(5.0)[:, None], np.arange(5.0), [0, 5])
    seen, n = np.zeros(5), 5000
    for _, relevance in islice(shuffled_rounds(data, np.random.default_rng(0), candidates=2), n):
        assert len(set(relevance)) == 2
        seen[relevance.astype(int)] += 1
    assert np.abs(seen / n - 2 / 5).max() < 4.5 * np.sqrt(6 / 25 / n)
    assert all(len(relevance) == 5 for _, relevance in islice(shuffled_rounds(data, np.random.default_rng(0), 9), 5))


def test_drift_draws_the_world_anew():
    inner = FlippedRelevance(flip=0.0)
    grades = [relevance.tolist() for _, relevance in rounds(Drift(inner=inner, at=5), 20)]
    assert grades[:5] == [grades[0]] * 5
    assert grades[5:] == [grades[5]] * 15
    assert grades[0] != grades[5]
    grades = [relevance.tolist() for _, relevance in rounds(Drift(inner=inner, at=5, repeat=True), 20)]
    assert len({tuple(grade) for grade in grades}) == 4


def test_drift_turns_the_grades_round():
    inner = LinearGaussian(n_queries=10)
    for repeat, last in ((False, True), (True, False)):
        stream = Drift(inner=inner, at=4, change="reverse", repeat=repeat)
        for t, (before, after) in enumerate(zip(rounds(inner, 12), rounds(stream, 12), strict=True)):
            turned = 4 <= t < 8 or (last and t >= 8)
            assert (before[0].features == after[0].features).all()
            assert (after[1] == (4 - before[1] if turned else before[1])).all()


def test_drift_turns_an_adversary_too():
    first, second = rounds(build('drift(inner="lower_bound", at=1, change="reverse")', "stream"), 2)
    assert first[1](np.array([0, 1])).tolist() == [0, 1]
    assert second[1](np.array([0, 1])).tolist() == [1, 0]


def test_letor_stream(tmp_path):
    (tmp_path / "a.txt").write_text("2 qid:1 1:1 2:5\n0 qid:1 1:3 2:5\n0 qid:2 1:1\n0 qid:2 1:2\n1 qid:3 1:1\n")
    (tmp_path / "b.txt").write_text("1 qid:1 1:7\n")
    (tmp_path / "folds.json").write_text("{}")
    stream = Letor(path=str(tmp_path))
    assert stream.problem == Problem(n_features=2, max_grade=2)
    assert stream.dataset().n_queries == 4
    assert build(spec_of(stream)) == stream
    assert {query.id for query, _ in rounds(stream, 100)} == {"1", "2", "3"}
    one = str(tmp_path / "a.txt")
    assert Letor(path=(one,), min_items=2, need_relevant=True).dataset().query_ids == ("1",)
    assert Letor(path=one, normalise=True, min_items=2).dataset().features.tolist() == [[0, 0], [1, 0], [0, 0], [1, 0]]
    assert all(len(relevance) == 1 for _, relevance in rounds(Letor(path=one, candidates=1), 20))
    (tmp_path / "b.txt").write_text("3 qid:1 1:7\n")
    assert stream.problem.max_grade == 3


def test_letor_stream_refusals(tmp_path):
    (tmp_path / "a.txt").write_text("-1 qid:1 1:1\n")
    with pytest.raises(InvalidInput, match="grades of a stream begin at 0"):
        Letor(path=str(tmp_path / "a.txt")).dataset()
    (tmp_path / "a.txt").write_text("0 qid:1 1:1\n")
    with pytest.raises(InvalidInput, match="no query has 1 items and a relevant one"):
        Letor(path=str(tmp_path / "a.txt"), need_relevant=True).dataset()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="contains no LETOR files"):
        Letor(path=str(tmp_path / "empty")).dataset()
    with pytest.raises(NotFound, match="RANKLOOP_DATA"):
        Letor(path="no/such/file").dataset()
    with pytest.raises(InvalidInput, match="at least one query"):
        next(shuffled_rounds(Dataset.of(np.empty((0, 2)), [], [0]), np.random.default_rng(0)))


@pytest.mark.skipif(data_folder() is None, reason=absence_notice("the folder of LETOR files"))
def test_letor_stream_finds_files_in_the_data_folder():
    stream = Letor(path="letor/mq2008", need_relevant=True)
    assert stream.dataset().n_queries == 784 - 220
    assert stream.problem == Problem(n_features=46, max_grade=2)


@pytest.mark.parametrize(
    "spec",
    [
        "flipped_relevance(n_items=0)",
        "flipped_relevance(n_relevant=21)",
        "flipped_relevance(flip=1.5)",
        "noisy_relevance(sd=-1)",
        "noisy_relevance(sd=inf)",
        "noisy_relevance(n_relevant=-1)",
        "separable(margin=0)",
        "separable(margin=1.1)",
        "separable(n_items=0)",
        "linear_gaussian(noise=nan)",
        "linear_gaussian(n_features=0)",
        "web_search(n_queries=0)",
        'drift(inner="separable", at=0)',
        'drift(inner="separable", at=1, change="sideways")',
        'letor(path="x", min_items=0)',
        'letor(path="x", candidates=0)',
        "lower_bound(margin=1e-200)",
        "lower_bound(margin=5e-324)",
        "lower_bound(margin=2.0)",
        "lower_bound(n_features=15)",
    ],
)
def test_impossible_parameters(spec):
    with pytest.raises(InvalidInput):
        build(spec, "stream")


def test_the_adversary_of_extreme_scale_is_that_of_the_plain_one():
    plain = build("lower_bound(margin=0.25)", "stream")
    for scale in (2.0**600, 2.0**-600):
        assert LowerBound(radius=scale, margin=0.25 * scale).n_queries == plain.n_queries == 1 / 0.25**2
    assert LowerBound(radius=1e200, margin=1e200).n_queries == 1


class Zeros:
    """A generator whose every draw is the smallest possible."""

    def random(self, size):
        return np.zeros(size)


def test_normal_numbers_are_finite_even_for_the_smallest_draw():
    assert np.isfinite(normals(Zeros(), 3)).all()


def test_grades_by_share():
    assert _grades_by_share(np.arange(10.0), (0.5, 0.3, 0.2)).tolist() == [0] * 5 + [1] * 3 + [2] * 2


def test_queries_that_are_held_out_are_never_shown():
    stream = HeldOut(inner=WebSearch(n_queries=20, n_items=5, n_features=3), share=0.25)
    shown, new = stream.parts(np.random.default_rng(4))
    whole = stream.inner.dataset(np.random.default_rng(4))
    assert (shown.n_queries, new.n_queries) == (15, 5)
    assert sorted((*shown.query_ids, *new.query_ids)) == sorted(whole.query_ids)
    met = {query.id for query, _ in rounds(stream, 400, seed=4)}
    assert met == set(shown.query_ids)
    assert set(stream.parts(np.random.default_rng(5))[1].query_ids) != set(new.query_ids)


def test_what_cannot_be_held_out():
    with pytest.raises(InvalidInput, match="over a data set"):
        HeldOut(inner=FlippedRelevance())
    with pytest.raises(InvalidInput, match="share"):
        HeldOut(inner=FEATURED[0], share=1.0)
    with pytest.raises(InvalidInput, match="two queries"):
        HeldOut(inner=WebSearch(n_queries=1)).parts(np.random.default_rng(0))
    for share in (0.001, 0.999):
        parts = HeldOut(inner=WebSearch(n_queries=2, n_items=3, n_features=2), share=share).parts(
            np.random.default_rng(0)
        )
        assert [part.n_queries for part in parts] == [1, 1]
