"""Would it help us? Learners played against the users of a log, with today's order beside them."""
