"""What an experiment is: the TOML table as types, its checks and its error messages."""
