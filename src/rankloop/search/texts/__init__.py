"""What texts are made of: their words, how these match a query, and the piece that is shown."""
