"""Every Python block of every page runs, page by page, and prints what it says; so does every example."""

import re
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.registry import cpu_target

from tests.docs.pages import PAGES, ROOT, Outcome, blocks_in, blocks_of, broken_promise, run, run_code, run_page

WHOLE = ("docs/learners/ads.md", "docs/evaluation.md")  # where the comment behind `print` is all that is printed
REGRETS = (
    "rtopk loses {:.2f} DCG per round in the first thousand rounds and {:.2f} over",
    "sees all grades, loses {:.2f} and {:.2f}",
)

slow = pytest.mark.slow


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=name_of)
def test_a_page(page, tmp_path):
    outcomes = run_page(page, tmp_path)
    assert [outcome for outcome in outcomes if broken_promise(outcome)] == []
    if name_of(page) in WHOLE:
        assert [outcome.text for outcome in outcomes] == [outcome.comment for outcome in outcomes]


@slow
@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.stem)
def test_an_example(example, tmp_path):
    assert run(example, tmp_path)


@slow
def test_pages_use_the_kernels_that_the_set_up_compiled(tmp_path):
    script = tmp_path / "page.py"
    script.write_text("from tests.docs.test_pages import kernel_target\nprint(kernel_target())")
    assert run(script, tmp_path).strip() == kernel_target()


def kernel_target():
    import_module("rankloop.core.compilation")  # says for which processor
    return str(cpu_target.target_context.codegen().magic_tuple())


@slow
def test_regrets_are_those_in_the_text(tmp_path):
    page = ROOT / "docs" / "learners" / "fixed-items.md"
    text = " ".join(page.read_text(encoding="utf-8").split())
    regrets = [float(re.findall(r"\d+\.\d+", outcome.text)[0]) for outcome in run_code(blocks_of(page)[0], tmp_path)]
    for words, first, last in zip(REGRETS, regrets[::2], regrets[1::2], strict=True):
        assert words.format(first, last) in text


def test_blocks_are_found_and_excuses_need_a_reason():
    page = "```python\nprint(1)\n```\n<!-- not run: needs the network -->\n```python\nprint(2)\n```\n"
    assert blocks_in(page) == ["print(1)\n"]
    assert blocks_in(page.replace(": needs the network", "")) == ["print(1)\n", "print(2)\n"]
    assert blocks_in("```toml\nkind = 1\n```\n", "toml") == ["kind = 1\n"]


CODE = """
names = []
names.append(
    "a",
)  # only does something: 0.5
names  # ['a']
for i in range(2):
    print("turn", i)  # turn 0, turn 1
print(
    i,
)  # 1: the last
print("no comment")
"""


def test_a_program_says_what_its_commented_lines_print(tmp_path):
    found = run_code(CODE, tmp_path)
    assert [(outcome.comment, outcome.printed) for outcome in found] == [
        ("only does something: 0.5", ("",)),
        ("['a']", ("['a']",)),
        ("turn 0, turn 1", ("turn 0", "turn 1")),
        ("1: the last", ("1",)),
    ]
    assert not any(map(broken_promise, found))


def test_every_program_starts_anew_and_its_failure_is_told(tmp_path):
    loaded = "import sys\nprint('left' in sys.modules)  # False\nsys.modules['left'] = sys\n"
    for _ in range(2):
        assert not any(map(broken_promise, run_code(loaded, tmp_path)))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run_code("1 / 0\n", tmp_path)


@pytest.mark.parametrize(
    ("comment", "kept", "broken"),
    [
        ("0.49", "today 0.49", "today 0.48"),
        ("0.49", "0.49", "0.491"),
        ("0.49", "0.49", "0.49 0.5"),
        ("True: as it should", "True 3", "False 3"),
        ("25,680 rounds", "25680", "25681"),
        ("one ranking: 0.9639…", "np.float64(0.96395)", "np.float64(0.9629)"),
        ("0.69, at least 0.60", "new 0.69, at least 0.60", "new 0.69, at least 0.61"),
        ("a 1.53, b 2.11", "a 1.53, b 2.11", "a 1.53, b 2.12"),
        ("(50, 60)", "(50, 60)", "(50, 61)"),
        ("[0.85 1.   ]", "[0.85 1.   ]", "[0.85 1.1  ]"),
        ("\"nDCG(gain='linear')@10\"", "\"nDCG(gain='linear')@10\"", "'nDCG@10'"),
        ("None", "None", "0"),
    ],
)
def test_a_promise_is_kept_or_found(comment, kept, broken):
    assert broken_promise(Outcome(1, comment, (kept,))) is None
    assert broken_promise(Outcome(1, comment, (broken,))) is not None
    assert broken_promise(Outcome(1, comment, ())) is not None


def test_prose_is_no_promise():
    assert broken_promise(Outcome(1, "near 1, 1/2: the positions, not the items", ("[0.9 0.5]",))) is None


def test_curl_says_what_it_sends():
    """Unless it is told, curl sends data as a form, which the service refuses."""
    sent = re.compile(r"^\$ (curl .*?)(?=^\$ |^```|^\{)", re.MULTILINE | re.DOTALL)
    commands = [command for page in PAGES for command in sent.findall(page.read_text(encoding="utf-8"))]
    with_data = [command for command in commands if re.search(r" (-d|--data\S*) ", command)]
    assert len(with_data) > 5
    assert [command for command in with_data if "Content-Type: " not in command] == []
