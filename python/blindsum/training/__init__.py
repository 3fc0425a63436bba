"""Training runs: what happened in each round, in files and as a page."""
