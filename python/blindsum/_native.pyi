from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from blindsum.arrays import IntegerVector, Sums, Vector
from blindsum.errors import BlindsumError

__version__: str

def validate_job(spec: str) -> str: ...
def validate_flat_job(settings: str) -> str: ...
def job_schema() -> str: ...
def protocols() -> list[str]: ...
def simulate(
    spec: str,
    updates: list[Vector] | list[IntegerVector] | None,
    weights: list[int] | None,
    drop: float,
    drop_at: list[str],
    rounds: int,
    seed: int,
    threads: int,
    progress: Callable[[int, int, str], object] | None,
) -> tuple[str, NDArray[np.float64] | None, Sums | None]: ...
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
def pki_has_signed(authority: tuple[str, str], certificate: str) -> bool: ...

Pem: TypeAlias = tuple[str, str, str, str | None]
"""Files of certificate, key, CA and revocation list."""

class Party:
    name: str
    spec: str
    def next_round(self, timeout: float | None) -> Round | BlindsumError | None: ...
    def final_model(self) -> NDArray[np.float32] | None: ...
    def reload(self) -> None: ...
    def close(self) -> None: ...

class Round:
    number: int
    parties: list[str]
    model_version: int
    def model(self) -> NDArray[np.float32]: ...
    def needs_update(self) -> bool: ...
    def submit(self, update: Vector | IntegerVector, weight: int) -> None: ...
    def result(
        self, timeout: float | None
    ) -> tuple[
        NDArray[np.float32] | NDArray[np.float64],
        int,
        list[str],
        int,
        NDArray[np.float32],
        Sums | None,
        tuple[float, float, float],
        NDArray[np.uint32] | None,
        tuple[int, float | None] | None,
        str,
    ]: ...
    def abandon(self) -> None: ...

def join(
    url: str,
    job: str,
    pem: Pem,
    server_name: str | None,
    policy: str,
    state_dir: str | None,
    give_up_after: float,
    mask_memory: int,
) -> Party: ...

class Coordinator:
    address: str
    hosts: list[str]
    def next_status(self, timeout: float) -> str | None: ...
    def reload(self) -> None: ...
    def stop(self) -> None: ...

def serve(
    spec: str,
    listen: str,
    pem: Pem,
    store: str | None,
    model: NDArray[np.float32] | None,
    limits: str,
    stop_when_done: bool,
) -> Coordinator: ...
def stored_jobs(store: str) -> str: ...
def stored_rounds(store: str, job: str, most: int) -> str: ...
def stored_model(store: str, job: str, version: int) -> NDArray[np.float32] | None: ...
def back_up_store(store: str, to: str) -> None: ...
def log_to_stderr(filter: str) -> None: ...
def first_not_finite(vector: Vector) -> int | None: ...
def mask_rate(tile_bytes: int, keys: int, seconds: float) -> tuple[str, float, float | None]: ...
def flashe_times(
    dim: int,
    bits: int,
    double: bool,
    parties: int,
    survivors: list[int],
    seconds: float,
    expected: list[int] | None = None,
) -> tuple[int, float, float, float]: ...
def flashe_masks(parties: int, survivors: list[int]) -> tuple[int, int]: ...
def flashe_expected_masks(parties: int, survivors: int) -> tuple[float, float]: ...
def flashe_sparse(
    dim: int,
    bits: int,
    coordinates: list[list[int]],
    seconds: float,
) -> tuple[tuple[int, int, int], tuple[float, float], tuple[float, float, float, float]]: ...
