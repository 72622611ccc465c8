"""Ways to reach a search box from elsewhere: agents, retrieval frameworks, other web pages, other engines."""
