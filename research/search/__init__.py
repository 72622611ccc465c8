"""The search box on documents with queries and judgements."""
