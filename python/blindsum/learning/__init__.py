"""Models, data sets and partitions for experiments in federated learning.

:mod:`~blindsum.learning.data` loads data sets, :mod:`~blindsum.learning.partitions` deals their examples to
parties, :mod:`~blindsum.learning.pictures` draws how much of which label each party has, and
:mod:`~blindsum.learning.nets` (needs torch) has the nets of the papers. ``import blindsum`` loads none of
them.
"""
