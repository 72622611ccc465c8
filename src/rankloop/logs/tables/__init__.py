"""Tables wherever they are: files of any format and frames in memory, and which of their rows were one page."""
