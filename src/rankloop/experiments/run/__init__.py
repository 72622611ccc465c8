"""Run the tasks of an experiment and save the finished runs in a folder."""
