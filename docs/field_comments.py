"""An extension of griffe: in the Python reference, the comment behind a field is its meaning."""

from __future__ import annotations

from typing import Any

try:
    from griffe import Docstring, Extension
except ImportError:  # the tests do without the tools of the site
    Extension = object


def meaning_of(line: str) -> str:
    """Return the comment behind a field as a sentence, empty without one.

    Args:
      line: The line of the source.
    """
    code, _, comment = line.rstrip().partition("  # ")
    is_meaning = ":" in code and not comment.startswith(("type:", "noqa"))
    return comment[:1].upper() + comment[1:] + "." if comment and is_meaning else ""


class FieldComments(Extension):
    """Give every field without a docstring the comment behind it."""

    def on_attribute(self, *, attr: Any, **_: Any) -> None:
        if attr.docstring is None and attr.lines and (meaning := meaning_of(attr.lines[-1])):
            attr.docstring = Docstring(meaning, parent=attr)
