"""The application: the operations of one process on the log, for users and operators."""
