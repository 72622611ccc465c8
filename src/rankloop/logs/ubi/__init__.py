"""User Behavior Insights, the open format in which search engines log queries and what users did with the hits."""
