"""Click models fitted to the logs of real people: how positions are examined, what attracts, when people stop."""
