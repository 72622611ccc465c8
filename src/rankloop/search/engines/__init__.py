"""Search engines that run elsewhere: one adapter for each, and the engine that the search box makes of them."""
