"""A simulated shop, and who ranks in it: clicks per page are what a shop asks for."""
