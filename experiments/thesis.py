"""Figures that the thesis on three servers prints, and where.

B. Akhtar: *Practical Privacy-Preserving Federated Learning with Secure Multi-Party Computation*, Virginia
Tech, 2024, chapter 5. Its servers run MP-SPDZ.
"""

from __future__ import annotations

from dataclasses import dataclass

CLIENTS = 16

MODELS = {
    "linear regression": 30_730,
    "DenseNet-121": 6_956_298,
    "VGG-11": 9_231_114,
    "ResNet-18": 11_173_962,
}
"""Parameters of models, Table 4.2."""
BASELINE = "VGG-11"
"""The model of all times of the chapter."""


@dataclass(frozen=True)
class Phases:
    """Seconds of a FedAvg round in the thesis' fastest design, of all clients together and of the servers.

    Attributes
    ----------
    masks : float
        The servers make random numbers for clients to mask their inputs with: Tables 5.8 and 5.9.
    convert, pack : float
        Floats to integers: 5.4 and 5.5; integers to bytes: 5.10 and 5.11.
    servers : float
        The program of the servers: 5.16 and 5.17.
    receive, convert_back, other : float
        The result: 5.12 and 5.13; back to floats: 5.6 and 5.7; and 5.14 and 5.15.
    whole : float
        End to end: 5.2 and 5.3.
    """

    masks: float
    convert: float
    pack: float
    servers: float
    receive: float
    convert_back: float
    other: float
    whole: float


PHASES = {
    "semi-honest": Phases(0, 0.575, 0.268, 3.466, 3.101, 0.023, 1.444, 13.700),
    "active": Phases(42.290, 0.618, 0.270, 283.454, 2.066, 0.035, 3.895, 338.662),
}

DELAYS = {
    0: (23.212, 22.759, 23.268),
    20: (175.094, 169.496, 173.168),
    40: (362.451, 318.511, 311.806),
    60: (547.102, 461.813, 459.438),
    80: (700.824, 627.979, 618.875),
    100: (890.674, 757.899, 753.827),
}
"""End to end by ms of delay, in packets of 128, 65,536 and 33,554,432: Tables 5.18, 5.19 and 5.20.

Their heads say ms; by Tables 5.2 and 5.16 and Figure 5.4 they are seconds.
"""
