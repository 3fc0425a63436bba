"""Readers of the files that data sets come in: one module a format. None of them runs code out of a file."""
