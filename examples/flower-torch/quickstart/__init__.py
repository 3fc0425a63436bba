"""A CNN in a federation."""
