"""The HTTP service: `Session.rank` and `Session.learn` behind HTTP, with an event log that survives crashes."""
