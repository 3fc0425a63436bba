"""Protocols side by side: a grid of simulations, its table, and what is made of it."""
