"""Homomorphic encryption by other libraries, measured as Table 2 of FLASHE measures it."""
