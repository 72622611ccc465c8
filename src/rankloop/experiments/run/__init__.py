"""Playing an experiment: from tasks to finished runs in a folder."""
