"""Rules that make one vector of many, in the clear.

Three servers can compute these rules on vectors that none of them knows. Here each rule is a function on
arrays, to compare with what the servers compute, and to try a rule on one's own data before a job uses it.

========================  ===========================================================================
:func:`fedavg`            the mean
:func:`weighted`          the mean with weights
:func:`clipped`           the mean of vectors that are shortened where they are too long
:func:`fltrust`           the mean of those that point where a trusted vector points
:func:`krum`              the vector that is nearest to its nearest others
:func:`multi_krum`        the mean of several such vectors
:func:`median`            the median of each coordinate
:func:`trimmed_mean`      the mean of each coordinate without its smallest and largest values
:func:`cosine`            the mean in which vectors that point where another one points count less
========================  ===========================================================================

All take ``updates``, an array of shape ``(n, D)``: one row for each of n parties. :func:`error_bound` says
how far the servers' result may be from this one.

>>> import numpy as np
>>> from blindsum import rules
>>> rules.median(np.array([[1.0, 5.0], [2.0, 7.0], [90.0, 6.0]]))
array([2., 6.])
"""

from blindsum.rules.coordinates import median, trimmed_mean
from blindsum.rules.directions import cosine, fltrust
from blindsum.rules.distances import krum, multi_krum
from blindsum.rules.fixed_point import error_bound
from blindsum.rules.means import clipped, fedavg, weighted

__all__ = [
    "clipped",
    "cosine",
    "error_bound",
    "fedavg",
    "fltrust",
    "krum",
    "median",
    "multi_krum",
    "trimmed_mean",
    "weighted",
]
