"""One file per command; each adds itself to the application."""
