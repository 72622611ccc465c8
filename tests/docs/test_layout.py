"""The documentation stays short and readable: words of all pages, lengths of sentences, lines of README.md."""

import re

from tests.docs.pages import PAGES, ROOT

MAX_WORDS = 45_000  # of docs/**/*.md without the tables of kept results
MAX_README_LINES = 120
MAX_SENTENCE_WORDS = 25
MIN_SHORT_SHARE = 0.95  # of the prose sentences of all pages

_HIDDEN = re.compile(r"^\s*```.*?^\s*```|<!--.*?-->", re.DOTALL | re.MULTILINE)
_MARKUP = (
    (re.compile(r"!\[[^\]]*\]\([^)]*\)"), ""),  # pictures
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),  # links keep their texts
    (re.compile(r"`[^`]*`"), "Code"),  # code counts as one word
    (re.compile(r"\*{1,2}"), ""),
)
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\")]*\s+(?=[\"“(]?[A-Z0-9])")
_WORD = re.compile(r"\S*[^\W\d_]{2}\S*|(?<!\S)[aAI](?!\S)")  # a token of two letters or more


def prose_sentences(text: str) -> list[str]:
    """Return the sentences of a page outside of code, tables, headings and comments."""
    blocks = [""]
    for line in _HIDDEN.sub("\n\n", text).splitlines():
        is_code = line.startswith("    ") and not blocks[-1]
        if not line.strip() or line.lstrip().startswith(("|", "#", "!!!")) or is_code:
            blocks.append("")
        elif _ITEM.match(line):
            blocks.append(_ITEM.sub("", line))
        else:
            blocks[-1] = f"{blocks[-1]} {line.strip()}".strip()
    sentences: list[str] = []
    for block in blocks:
        for pattern, replacement in _MARKUP:
            block = pattern.sub(replacement, block)
        sentences += filter(_WORD.search, _SENTENCE_END.split(block))
    return sentences


def long_sentences(text: str) -> list[str]:
    """Return the sentences of a page that are too long."""
    return [each for each in prose_sentences(text) if len(_WORD.findall(each)) > MAX_SENTENCE_WORDS]


def texts() -> dict[str, str]:
    """Return the pages that are read from top to bottom, by their path."""
    results = ROOT / "docs" / "results"
    pages = [page for page in PAGES if results not in page.parents]
    return {page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8") for page in pages}


def test_all_pages_together_are_short():
    counts = {name: len(text.split()) for name, text in texts().items() if name.startswith("docs/")}
    largest = sorted(counts.items(), key=lambda entry: -entry[1])[:8]
    assert sum(counts.values()) <= MAX_WORDS, f"{sum(counts.values()):,} words; the largest pages: {largest}"


def test_readme_fits_on_two_screens():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES


def test_most_sentences_are_short():
    pages = texts().values()
    n_long, n_all = (sum(len(select(page)) for page in pages) for select in (long_sentences, prose_sentences))
    worst = sorted(texts(), key=lambda name: -len(long_sentences(texts()[name])))[:8]
    assert 1 - n_long / n_all >= MIN_SHORT_SHARE, f"{n_long} of {n_all} sentences are long; most are in {worst}"


def test_sentences_are_counted_without_code_tables_and_markup():
    page = "# A title\n\nOne two `three four`. Five [six](seven.md)\neight!\n\n| a | table |\n\n```python\nx = 1\n```\n"
    assert prose_sentences(page + "- Nine.\n- Ten") == ["One two Code.", "Five six eight!", "Nine.", "Ten"]
    assert long_sentences("word " * 25 + "ends. A short one.") == ["word " * 25 + "ends."]
    assert long_sentences("word " * 24 + "ends.") == []
