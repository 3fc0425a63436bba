"""Slow models of what Blindsum computes."""
