"""The log: events, how they are written and read again, what they add up to, and where they lie."""
