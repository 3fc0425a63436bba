"""Attacks on updates and on sums, as a demonstration: ``blindsum attack``."""
