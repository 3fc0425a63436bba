"""Experiments of papers, run with this implementation: one module each, see README.md."""
