"""Where the log lives: one port, an adapter per database."""
