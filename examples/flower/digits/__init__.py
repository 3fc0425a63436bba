"""Handwritten digits in a federation."""
