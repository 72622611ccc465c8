"""User Behavior Insights, the open format in which search engines log queries and what people did with the hits."""
