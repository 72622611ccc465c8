"""Data sets in parts, on a shared folder or in a store of objects, that are read where they are needed."""

from rankloop.data.parts.catalogue import PartCatalogue, StoredDataset, StoredQueries
from rankloop.data.parts.source import PartSource, sources_in

__all__ = ["PartCatalogue", "PartSource", "StoredDataset", "StoredQueries", "sources_in"]
