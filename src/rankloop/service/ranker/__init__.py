"""One ranker in service: configuration, rankings, lessons, feedback, health; and two of them compared."""
