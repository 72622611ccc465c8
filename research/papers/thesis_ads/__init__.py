"""Chaudhuri (2016), "Learning to rank", chapter V: advertisements that few users click."""
