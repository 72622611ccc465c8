"""Data sets in parts, on a shared folder or in a store of objects, that are read where they are needed."""

from rankloop.data.parts.catalogue import Catalogue, StoredDataset, StoredQueries
from rankloop.data.parts.source import Source, sources_in

__all__ = ["Catalogue", "Source", "StoredDataset", "StoredQueries", "sources_in"]
