"""The application: what visitors and operators ask of one process on the log."""
