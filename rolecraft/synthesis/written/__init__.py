"""Bugs that a model writes, that are combined, or that a given patch tells of."""
