"""Figures and tables of papers that are not a plain experiment: a module each, its function under `@reproduction`."""
