"""Would it help us? Learners played against the people of a log, with today's order beside them."""
