"""A search over one's own documents."""
