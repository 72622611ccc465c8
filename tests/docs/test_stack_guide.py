"""The guide to one's own stack: the cells of the notebook, and PostgreSQL with full text and pgvector."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, run
from tests.service.postgres_servers import postgres_server

PAGE = ROOT / "docs" / "guides" / "in-your-stack.md"


def test_the_cells_of_the_notebook_run_in_order(tmp_path: Path) -> None:
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in notebook["cells"] if cell["cell_type"] == "code")
    script = tmp_path / "notebook.py"
    script.write_text("import matplotlib\nmatplotlib.use('Agg')\n" + "\n".join(cells), encoding="utf-8")
    printed = run(script, tmp_path)
    assert re.match(r"\d\.\d\d clicks per page at first, \d\.\d\d at the end", printed)
    assert "The learned ranker" in printed or "the learned ranker" in printed


def test_postgresql_finds_the_candidates(tmp_path: Path) -> None:
    (code,) = re.findall(r"<!-- not run: it needs a PostgreSQL.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    with postgres_server() as server:
        environment = os.environ | {"DATABASE": server.database()}
        command = [sys.executable, str(tmp_path / "page.py")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(pgvector|full text) \[1, 2, 3\]\n", done.stdout)
