"""Stands in for the training of a party in deploy/compose.yaml."""

import time

import numpy as np


def step(model: np.ndarray, number: int) -> np.ndarray:
    """Give an update of as many numbers as the model has, after a while."""
    time.sleep(2)
    return np.random.default_rng(number).normal(0, 0.1, len(model))
