"""Where words lead to documents: an index of stems, and a table of the documents themselves."""
