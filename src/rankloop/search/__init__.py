"""A search over one's own documents that learns from clicks."""

from rankloop.search.box import SearchBox as SearchBox
