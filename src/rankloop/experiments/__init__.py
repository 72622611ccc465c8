"""An experiment is data: a table that says what is played; here it is run, kept, compared, drawn and reported."""
