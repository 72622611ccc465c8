"""The modules of 0.1 under their old names, in every way in which a program may import them."""

import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest

from rankloop.aliases import moved_modules


@pytest.mark.parametrize("old", moved_modules())
def test_a_moved_module_is_found_under_its_old_name(old):
    new = import_module(f"rankloop.{moved_modules()[old]}")
    names = [name for name, value in vars(new).items() if name[0] != "_" and not isinstance(value, ModuleType)]
    assert all(getattr(import_module(f"rankloop.{old}"), name) is getattr(new, name) for name in names)


@pytest.mark.parametrize(
    "program",
    [
        "import rankloop.data.letor; rankloop.data.letor.read_letor",
        "import rankloop.ads.training; rankloop.ads.training.fit_rankers",
        "import rankloop.evaluation.log_table as table; table.LogTable",
        "from rankloop.evaluation import log_table; log_table.LogTable",
        "from rankloop.ads import *; AUCRanker, judge",
        "import rankloop; rankloop.ads.AUCRanker",
        "import rankloop.ads; assert 'AUCRanker' in dir(rankloop.ads)",
    ],
)
def test_an_old_name_is_imported_as_any_module(program):
    subprocess.run([sys.executable, "-c", program], check=True)


def test_nothing_is_loaded_before_it_is_used():
    program = "import sys, rankloop.ads.training; assert 'rankloop.bandits' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
