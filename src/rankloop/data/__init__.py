"""Data sets of queries with features and grades: readers of files and folders."""

from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.folder import data_folder
from rankloop.data.letor.file import read_letor, stream_letor

__all__ = ["Dataset", "concatenate", "data_folder", "normalise_queries", "read_letor", "stream_letor"]
