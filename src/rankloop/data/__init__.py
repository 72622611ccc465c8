"""Data sets, and streams of queries over them."""

from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.download import fetch
from rankloop.data.folder import data_folder
from rankloop.data.readers.letor.file import read_letor, stream_letor
from rankloop.data.readers.multiclass import LabelledSet, read_labelled
from rankloop.data.readers.text import Corpus, read_corpus, tf_idf

__all__ = ["Corpus", "Dataset", "LabelledSet", "concatenate", "data_folder", "fetch", "normalise_queries"]
__all__ += ["read_corpus", "read_labelled", "read_letor", "stream_letor", "tf_idf"]
