"""Data sets, and streams of queries over them."""

from rankloop.data.corpora import TopicCorpus, read_corpus, tf_idf
from rankloop.data.dataset import Dataset, concatenate, normalise_queries
from rankloop.data.download import fetch
from rankloop.data.folder import data_folder
from rankloop.data.letor.file import read_letor, stream_letor

__all__ = ["Dataset", "TopicCorpus", "concatenate", "data_folder", "fetch", "normalise_queries"]
__all__ += ["read_corpus", "read_letor", "stream_letor", "tf_idf"]
