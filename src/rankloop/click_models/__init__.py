"""Click models fitted to the logs of real users: how positions are examined, what attracts, when users stop."""
