"""The names that :mod:`blindsum.misbehaviours` had before."""

from blindsum.misbehaviours import MISBEHAVIOURS as LIES
from blindsum.misbehaviours import Misbehaviour as Lie

__all__ = ["LIES", "Lie"]
