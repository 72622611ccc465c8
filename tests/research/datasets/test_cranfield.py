"""Collections in the format of SMART, as the files of Cranfield have it."""

import gzip
from pathlib import Path

import pytest

from rankloop.core.errors import InvalidInput, NotFound
from rankloop.data.folder import absence_notice, data_path
from research.datasets.cranfield import read_cranfield

DOCUMENTS = """.I 1
.T
experimental investigation of the aerodynamics of a
wing in a slipstream .
.A
brenckman,m.
.B
j. ae. scs. 25, 1958, 324.
.W
experimental investigation of the aerodynamics of a
wing in a slipstream .
  an experimental study of a wing in a propeller slipstream was
made in order to determine the spanwise distribution of the lift .
.I 2
.T
simple shear flow past a flat plate in an incompressible fluid of small
viscosity .
.A
ting-yili
.B
department of aeronautical engineering, rensselaer polytechnic
institute
troy, n.y.
.W
simple shear flow past a flat plate . cf. eq. (.I) of ref. 3 .
.I 471
.T

.A

.B

.W

"""
QUERIES = """.I 001
.W
what similarity laws must be obeyed when constructing aeroelastic models
of heated high speed aircraft .
.I 004
.W
what problems of heat conduction in composite slabs have been solved so
far .
"""
JUDGEMENTS = "1 0 2 1\n1 0 1 1 \n2 0 1 0\n2 0 471 -1\n2 0 2 3\n"


def written(folder: Path, documents: str = DOCUMENTS, queries: str = QUERIES, judgements: str = JUDGEMENTS) -> Path:
    names = {"cran.all.1400.gz": documents, "cran.qry.gz": queries, "cranqrel.correct.gz": judgements}
    for name, text in names.items():
        (folder / name).write_bytes(gzip.compress(text.encode("latin-1")))
    return folder


def test_records_fields_and_judgements(tmp_path: Path) -> None:
    found = read_cranfield(written(tmp_path))
    title = "experimental investigation of the aerodynamics of a wing in a slipstream ."
    assert list(found.documents) == ["1", "2", "471"]
    assert found.documents["1"][0] == title
    assert found.documents["1"][1].startswith(f"{title} an experimental study of a wing")
    assert found.documents["2"][1].endswith("cf. eq. (.I) of ref. 3 .")
    assert found.documents["471"] == ("", "")
    assert found.queries[1] == "what problems of heat conduction in composite slabs have been solved so far ."
    assert found.relevant == (frozenset({"1", "2"}), frozenset({"2"}))  # by order, not by what a query is called


def test_lines_may_end_as_windows_ends_them(tmp_path: Path) -> None:
    unix, windows = tmp_path / "unix", tmp_path / "windows"
    unix.mkdir()
    windows.mkdir()
    texts = (DOCUMENTS, QUERIES, JUDGEMENTS)
    assert read_cranfield(written(unix)) == read_cranfield(
        written(windows, *(text.replace("\n", "\r\n") for text in texts))
    )


@pytest.mark.parametrize(
    "line", ["3 0 1 1", "0 0 1 1", "x 0 1 1", "1 0", "1 0 1", "1 0 1 x", "1 0 1 1 1", "² 0 1 1", "-1 0 1 1", ""]
)
def test_what_is_no_judgement_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(InvalidInput, match="line 2"):
        read_cranfield(written(tmp_path, judgements=f"1 0 1 1\n{line}\n1 0 2 1\n"))


def test_files_without_records_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cran\.qry\.gz has no record"):
        read_cranfield(written(tmp_path, queries="what\n"))
    with pytest.raises(InvalidInput, match=r"cran\.all\.1400\.gz has no record"):
        read_cranfield(written(tmp_path, documents=""))


def test_the_real_collection() -> None:
    try:
        folder = data_path("search/cranfield")
    except NotFound:
        pytest.skip(absence_notice("Cranfield"))
    found = read_cranfield(folder)
    assert (len(found.documents), len(found.queries)) == (1_400, 225)
    assert sum(map(len, found.relevant)) == 1_837
    assert min(map(len, found.relevant)) >= 1
    assert set().union(*found.relevant) <= found.documents.keys()
    assert sum(not body for _, body in found.documents.values()) <= 2
