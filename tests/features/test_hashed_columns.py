"""Hashes, written down as numbers: they have to be the same in every process, on every machine, for ever."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankloop.core.errors import InvalidInput
from rankloop.features.hashed_columns import MISSING_VALUE, _cross_hashes, hash_of

MASK = 2**64 - 1
UINT64 = st.integers(0, MASK)

# xxh3_64 of the name, a unit separator and the value
GOLDEN = {
    ("brand", "Acme"): 0xA9BE5F72E1E19C06,
    ("brand", ""): 0xF90AF75A6CD0FB7C,
    ("brand", MISSING_VALUE): 0xEF5196D4AD25BFBA,
    ("price", "7"): 0xBE28F9CC5A2CD8A3,
    ("title", "caf\u00e9"): 0xED22D1274A1DD033,
    ("sku", "東京"): 0x9E9DC895FE4B946C,
    ("x", "y" * 1000): 0x74AA4B350B39A1E9,
}


@pytest.mark.parametrize(("name", "value"), GOLDEN)
def test_golden(name, value):
    assert hash_of(name, value) == GOLDEN[name, value]


def test_names_and_values_cannot_be_mixed_up():
    assert hash_of("a", "bc") != hash_of("ab", "c")
    assert len({hash_of("a", str(i)) for i in range(10_000)}) == 10_000


def test_half_a_character():
    with pytest.raises(InvalidInput, match=r"title: '\\ud800' has an unpaired surrogate"):
        hash_of("title", "\ud800")


def python_crossed(first, second):
    return int(_cross_hashes(np.uint64(first), np.uint64(second)))


def test_golden_crosses():
    assert python_crossed(0, 0) == 0
    assert python_crossed(1, 0) == 0xE220A8397B1DCDAF  # splitmix64's first number from seed 0
    assert python_crossed(1, 1) == 0x910A2DEC89025CC1  # and from seed 1
    assert python_crossed(1, 2) == 0x975835DE1C9756CE
    assert python_crossed(hash_of("brand", "Acme"), hash_of("segment", "sport")) == 0x3FFD955000B9B2C9


def plain_crossed(first, second):
    """The last step of splitmix64 in Python's integers."""
    mixed = (first * 0x9E3779B97F4A7C15 + second) & MASK
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB & MASK
    return mixed ^ (mixed >> 31)


@given(UINT64, UINT64)
def test_crossed_in_compiled_code_and_in_python(first, second):
    assert python_crossed(first, second) == plain_crossed(first, second)


@given(UINT64, UINT64)
def test_a_cross_has_an_order_and_spreads(first, second):
    """One bit of either moves many bits of the cross; the two cannot be exchanged."""
    if first != second:
        assert python_crossed(first, second) != python_crossed(second, first)
    changed = [python_crossed(first, second) ^ python_crossed(first, second ^ (1 << bit)) for bit in range(64)]
    assert sum(bits.bit_count() for bits in changed) / 64 > 20
    assert all(changed)
