"""Rankings by measures: of saved models, of scores, of TREC runs; how steady they are, what exploring costs."""
