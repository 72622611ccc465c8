"""Results about games that no command uses: shares of the best where a game is hopeless, calibrated surrogates."""
