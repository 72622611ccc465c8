"""Rankers behind HTTP: `Session.rank` and `Session.learn` plus a durable log, and nothing that decides."""
