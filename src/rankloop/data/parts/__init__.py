"""Data sets in parts, on a shared folder or in a store of objects, that are read where they are needed."""
