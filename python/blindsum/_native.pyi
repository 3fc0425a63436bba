from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import Vector

__version__: str

def validate_job(spec: str) -> str: ...
def protocols() -> list[str]: ...
def simulate(
    spec: str,
    updates: list[Vector] | None,
    weights: list[int] | None,
    drop: float,
    drop_at: list[str],
    rounds: int,
    seed: int,
    threads: int,
    progress: Callable[[int, int, str], object] | None,
) -> tuple[str, NDArray[np.float64] | None]: ...
def pki_create_authority(name: str, algorithm_name: str, days: int) -> tuple[str, str]: ...
def pki_issue(
    authority: tuple[str, str],
    name: str,
    hosts: list[str] | None,
    algorithm_name: str,
    days: int,
) -> tuple[str, str]: ...
def pki_request(name: str, algorithm_name: str) -> tuple[str, str]: ...
def pki_sign(
    authority: tuple[str, str],
    request: str,
    name: str,
    hosts: list[str] | None,
    days: int,
) -> str: ...
def pki_revoke(authority: tuple[str, str], serials: list[str], number: int, days: int) -> str: ...
def pki_describe(certificate: str) -> dict[str, Any]: ...
