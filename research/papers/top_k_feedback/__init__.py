"""Chaudhuri and Tewari: what can be learned from the grades of the first items, and how fast."""
