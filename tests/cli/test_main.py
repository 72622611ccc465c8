"""Without the extras: what needs none of them runs, and the rest says which one it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rankloop.core.extras import EXTRA_BY_PACKAGE

BARE = f"""
import sys
for name in {sorted(EXTRA_BY_PACKAGE)}:
    sys.modules[name] = None  # an import of it fails as if it were not installed
from rankloop.cli import main
sys.argv[1:] = ["list", "--json"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.argv[1:] = ["serve"]
main()
"""


def test_everything_is_listed_and_serving_names_its_extra(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", BARE], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
    assert done.stderr.endswith(": pip install 'rankloop[serve]'\n"), done.stderr
    assert '"newton_pairs"' in done.stdout
