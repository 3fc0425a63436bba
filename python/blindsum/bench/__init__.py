"""Measurements: rounds over real processes, and secagg against its targets."""
