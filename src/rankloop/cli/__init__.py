"""The command line: parse, call, print; nothing else. An error is one line and exit code 2, never a traceback."""

from rankloop.cli.main import main

__all__ = ["main"]
