"""What tests register goes again."""

from rankloop.core.registry import _entries, _of_class


def unregister(kind: str, category: str) -> None:
    """Remove a kind from the registry."""
    _of_class.pop(_entries.pop((category, kind)).cls, None)
