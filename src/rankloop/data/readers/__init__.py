"""From files to arrays: LETOR, collections of documents, labelled sets."""
