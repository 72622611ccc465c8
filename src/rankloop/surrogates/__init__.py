"""Functions of scores and relevance that learners minimise, one per file."""
