"""Upkeep of a log while it is in use or at rest: backups, their restoration, migration from earlier versions."""
