"""MSLR-WEB10K, Yahoo and Istella as published: folders, archives, and what may be wrong with them."""

from __future__ import annotations

import io
import json
import tarfile
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from rankloop import build
from rankloop.cli import main
from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data import read_letor, stream_letor
from rankloop.data.public_sets import published_folds, unpacked
from rankloop.engine import Here
from rankloop.training.folds import _stored_address, _stored_folds, read_folds
from tests.data.small_sets import (
    HUGE,
    istella_lines,
    mslr_lines,
    tarred,
    write_istella,
    write_mslr,
    write_yahoo,
    yahoo_lines,
    zipped,
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKLOOP_CACHE", str(tmp_path / "cache"))


def done(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    with pytest.raises(SystemExit) as leaving:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert not leaving.value.code, captured.err
    return captured.out


def test_mslr_has_its_folds_as_a_folder_and_as_the_zip(tmp_path: Path) -> None:
    folder = write_mslr(tmp_path / "MSLR-WEB10K")
    archive = zipped(folder, tmp_path / "MSLR-WEB10K.zip")
    for place in (folder, archive):
        folds = published_folds(place)
        assert [fold.name for fold in folds] == ["Fold1", "Fold2", "Fold3"]
        assert [file.name for file in folds[1].files] == ["train.txt", "vali.txt", "test.txt"]
    read = read_folds(archive)
    assert [fold.train.features.shape for fold in read] == [(48, 136)] * 3
    assert read[0].test.query_ids == ("12", "13", "14", "15")
    assert read[0].train.features[0, 100] == 123456789.0
    assert published_folds(folder / "Fold2")[0].paths[0] == folder / "Fold2" / "train.txt"
    assert unpacked(archive) == unpacked(archive)


def test_yahoo_has_two_sets_with_gaps(tmp_path: Path) -> None:
    folder = write_yahoo(tmp_path / "ltrc")
    first, second = published_folds(folder)[0], published_folds(folder / "set2")[0]
    assert [file.name for file in first.files] == ["set1.train.txt", "set1.valid.txt", "set1.test.txt"]
    assert second.paths[1] == folder / "set2.valid.txt"
    fold = read_folds(tarred(folder, tmp_path / "ltrc.tgz"))[0]
    assert fold.train.n_features == fold.validation.n_features == fold.test.n_features <= 700
    assert (fold.train.features == 0).mean() > 0.5


@pytest.mark.parametrize("validation", [True, False])
def test_istella_has_values_that_are_missing(tmp_path: Path, validation: bool) -> None:
    folder = write_istella(tmp_path / "istella-s", validation)
    fold = read_folds(tarred(folder, tmp_path / "istella-s-letor.tar.gz"))[0]
    assert fold.name == "sample"
    parts = fold.train, fold.validation, fold.test
    assert [part.n_queries for part in parts] == ([10, 10, 10] if validation else [8, 2, 10])
    assert all(part.n_features == 220 and part.features.max() <= 1.0 for part in parts)
    text = (folder / "sample" / "test.txt").read_text()
    assert HUGE in text
    (tmp_path / "zero.txt").write_text(text.replace(HUGE, "0"))
    np.testing.assert_array_equal(fold.test.features, read_letor(tmp_path / "zero.txt").features)
    (tmp_path / "large.txt").write_text("1 qid:1 1:1e309\n")
    with pytest.raises(InvalidInput, match="line 1: '1e309' is too large"):
        read_letor(tmp_path / "large.txt")


def test_one_command_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Train on the archive as it was fetched, and judge by its test part."""
    write_mslr(tmp_path / "MSLR-WEB10K"), write_yahoo(tmp_path / "ltrc"), write_istella(tmp_path / "istella-s")
    places = (
        zipped(tmp_path / "MSLR-WEB10K", tmp_path / "MSLR-WEB10K.zip"),
        tmp_path / "ltrc",
        tarred(tmp_path / "istella-s", tmp_path / "istella-s-letor.tar.gz"),
    )
    for place in places:
        how = "--normalise", "--regularisation", "0.1", "--out", tmp_path / "out", "--json"
        answer = json.loads(done(capsys, "train", place, *how))
        judged = json.loads(done(capsys, "evaluate", answer["model"], place, "--json"))
        assert judged["n_queries"] == published_folds(place)[0].paths[-1].read_text().count("\n") // (
            6 if "MSLR" in place.name else 5
        )


def test_the_full_online_run_is_one_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    zipped(write_mslr(tmp_path / "folds", 1), tmp_path / "MSLR-WEB10K.zip")
    monkeypatch.setenv("RANKLOOP_DATA", str(tmp_path))
    spec = Path(__file__).parents[2] / "examples" / "mslr_web10k.toml"
    answer = json.loads(done(capsys, "run", spec, "--quick", "--engine", "here", "--out", tmp_path / "out", "--json"))
    assert {one["arm"] for one in answer["results"]} >= {"all graded", "first 5 graded", "clicks"}


def test_sets_that_stay_on_disk_have_the_same_folds(tmp_path: Path) -> None:
    write_mslr(tmp_path / "mslr"), write_yahoo(tmp_path / "ltrc"), write_istella(tmp_path / "istella")
    for name in ("mslr", "ltrc", "ltrc/set2", "istella"):
        stored = _stored_folds(str(tmp_path / name), 5, Here())
        read = read_folds(tmp_path / name)
        assert [fold.name for fold in stored] == [fold.name for fold in read]
        for mine, other in zip(stored, read):
            assert [part.n_queries for part in mine[1:]] == [part.n_queries for part in other[1:]]
            assert mine.train.n_features == other.train.n_features
    assert _stored_address(str(tmp_path / "ltrc" / "set2"), on_cluster=False, stream=False) is None
    archive = zipped(tmp_path / "mslr", tmp_path / "mslr.zip")
    assert _stored_address(str(archive), on_cluster=False, stream=True) == str(unpacked(archive))


def test_passes_meet_every_query_once_each(tmp_path: Path) -> None:
    folder = write_mslr(tmp_path / "MSLR-WEB10K", 1)
    stream = build({"kind": "letor_passes", "path": str(folder)}, "stream")
    assert (stream.problem.n_features, stream.problem.max_grade) == (136, 4)
    rounds = list(islice(stream.rounds(np.random.default_rng(0)), 32))
    for half in (rounds[:16], rounds[16:]):
        assert sorted(int(query.id) for query, _ in half) == list(range(16))
    known = read_letor(folder / "Fold1" / "train.txt")
    for query, relevance in rounds:
        if query.id in known.query_ids:
            own, grades = known.query(known.query_ids.index(query.id))
            order = np.argsort(query.features[:, 50], kind="stable")
            by_file = np.argsort(own.features[:, 50], kind="stable")
            np.testing.assert_array_equal(query.features[order], own.features[by_file])
            np.testing.assert_array_equal(relevance[order], grades[by_file])
    part = build({"kind": "letor_passes", "path": str(folder), "part": "test", "candidates": 2}, "stream")
    drawn = list(islice(part.rounds(np.random.default_rng(0)), 8))
    assert {query.id for query, _ in drawn} == {"12", "13", "14", "15"}
    assert {query.features.shape for query, _ in drawn} == {(2, 136)}


@pytest.mark.parametrize("cut", [0.3, 0.9])
@pytest.mark.parametrize("pack", [zipped, tarred])
def test_an_archive_that_is_cut_short_leaves_nothing(tmp_path: Path, cut: float, pack) -> None:
    archive = pack(write_mslr(tmp_path / "MSLR"), tmp_path / f"MSLR.{'zip' if pack is zipped else 'tar.gz'}")
    content = archive.read_bytes()
    archive.write_bytes(content[: int(cut * len(content))])
    with pytest.raises(InvalidInput, match=r"MSLR\.\w+.*cut short"):
        unpacked(archive)
    assert list((tmp_path / "cache" / "published").iterdir()) == []


def test_names_in_an_archive_lead_nowhere_else(tmp_path: Path) -> None:
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as stream:
        for name in ("../../train.txt", "/etc/train.txt", "good/test.txt", "good/train.txt"):
            member = tarfile.TarInfo(name)
            member.size = 4
            stream.addfile(member, io.BytesIO(b"1 1:"))
    with pytest.raises(InvalidInput, match="outside the destination"):
        unpacked(archive)
    assert [path.name for path in tmp_path.rglob("*.txt")] == []


def test_what_is_wrong_names_file_and_line(tmp_path: Path) -> None:
    folder = write_mslr(tmp_path / "MSLR", 1)
    train = folder / "Fold1" / "train.txt"
    whole = train.read_text()
    for text, message in (
        (whole[:-300], r"train.txt, line 48: .* cut short"),
        (whole.replace(" 136:", " 13600:", 1), "train.txt, line 1: the index of '13600:.*' is above 10000"),
        ("x" + whole, "train.txt, line 1: 'x.*' is not a grade"),
        (whole.replace("qid:0 ", "", 1), "train.txt, line 1: the query must be named|line 2: the query must be named"),
        ("", "train.txt is empty"),
    ):
        train.write_text(text)
        with pytest.raises(InvalidInput, match=message):
            read_folds(folder)
    train.write_text(mslr_lines(range(2)) + mslr_lines(range(1)))
    with pytest.raises(InvalidInput, match=r"train.txt, line 13: query '0' comes back after others"):
        list(stream_letor(train))
    train.unlink()
    with pytest.raises(NotFound, match=r"no train.txt .* in .*Fold1; it has test.txt, vali.txt"):
        read_folds(folder)
    (tmp_path / "folds" / "fold1").mkdir(parents=True)
    (tmp_path / "folds" / "fold2").mkdir()
    with pytest.raises(NotFound, match=r"neither a LETOR file nor .*it has fold1, fold2; did you mean 'Fold1'"):
        read_folds(tmp_path / "folds")
    (tmp_path / "empty.txt").write_text("")
    empty = build({"kind": "letor_passes", "path": str(tmp_path / "empty.txt")}, "stream")
    with pytest.raises(InvalidInput, match=r"empty.txt contains no feature: is it empty"):
        _ = empty.problem


def test_the_formats_are_those_of_the_sets() -> None:
    """What the tests above stand on."""
    assert mslr_lines(range(1)).splitlines()[0].count(":") == 137
    assert (
        max(int(pair.split(":")[0]) for pair in yahoo_lines(range(9)).split() if pair[0].isdigit() and ":" in pair)
        > 650
    )
    assert istella_lines(range(1)).splitlines()[0].count(":") == 221
