"""Slow, obvious twins of the algorithms, straight from their papers; they never import the package."""
