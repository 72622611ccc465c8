"""A search box over your documents that learns from clicks."""

from rankloop.search.box import SearchBox
from rankloop.search.ranked_search import SearchOptions, SearchResult, SearchResults

__all__ = ["SearchBox", "SearchOptions", "SearchResult", "SearchResults"]
