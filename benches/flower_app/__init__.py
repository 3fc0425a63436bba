"""The Flower app that ``blindsum bench flower`` runs: updates that are known and there at once.

It is copied into an app of its own, so its modules name each other relatively.
"""
