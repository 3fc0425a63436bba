"""What the ServerApp tells a node over Flower's messages, read in one place: all of it is foreign."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindsum.checks import whole_number
from blindsum.errors import InputError
from blindsum.flower import contents
from blindsum.flower.frames import unpacked
from blindsum.flower.invitations import MAX_NAME, MAX_PEM, text, wrong
from blindsum.flower.node_folder import Place
from blindsum.flower.refusals import Refusal
from blindsum.hosted import MAX_TAG


@dataclass(frozen=True)
class Letter:
    """What a message says to the party of a node.

    Attributes
    ----------
    job : str
        The name of the job.
    order : int
        The place of the job among those of its run.
    place : Place
        Where the message stands in its job; one with the number 0 begins a connection.
    tag : int
        The round of the strategy.
    content : bytes
        The hash of what the node trains on in this round (:func:`blindsum.flower.contents.content_digest`).
    frames : sequence of bytes
        Frames of the coordinator.
    has_model : bool
        Whether the message has what the node trains on. That has the hash ``content``, then.
    weighted_by : str
        The key of the metric that is the weight.
    certificate, ca : str
        What the run's CA has signed; empty where the node has a certificate of its own.
    """

    job: str
    order: int
    place: Place
    tag: int
    content: bytes
    frames: Sequence[bytes] = ()
    has_model: bool = False
    weighted_by: str = ""
    certificate: str = ""
    ca: str = ""

    @classmethod
    def read(cls, told: Mapping[str, object], frames: Any, message: Any) -> Letter:
        """Read a train message.

        Parameters
        ----------
        told
            Blindsum's record of it.
        frames
            The record with frames, or ``None``.
        message
            The message without these two.

        Raises
        ------
        blindsum.ConfigError
            An entry is missing, of another type or too long, and ``field`` is ``"blindsum-record"``. Or the
            message has another model or configuration than it says, and ``field`` is ``"messages"``.
        """
        numbers: dict[str, int] = {}
        for key in ("order", "link", "number", "tag"):
            value = whole_number(told.get(key))
            if value is None or not 0 <= value <= MAX_TAG:
                raise wrong(key, "must be a whole number of 0 or more")
            numbers[key] = value
        content = text(told, "content", 64)
        if not re.fullmatch("[0-9a-f]{64}", content):
            raise wrong("content", "must be 64 hexadecimal digits")
        has_model = told.get("has-model")
        if not isinstance(has_model, bool):
            raise wrong("has-model", "must be a truth value")
        try:
            carried = unpacked(frames)
        except InputError as error:
            raise Refusal("blindsum-record", str(error)) from error
        found = cls(
            job=text(told, "job", MAX_NAME),
            order=numbers["order"],
            place=Place(numbers["link"], numbers["number"]),
            tag=numbers["tag"],
            content=bytes.fromhex(content),
            frames=carried,
            has_model=has_model,
            weighted_by=text(told, "weighted-by", MAX_NAME),
            certificate=text(told, "certificate", MAX_PEM) if "certificate" in told else "",
            ca=text(told, "ca", MAX_PEM) if "certificate" in told else "",
        )
        if has_model and contents.content_digest(message) != found.content:
            raise Refusal(
                "messages",
                "the train message that this node got is not the one that it says (arrays, configuration, "
                "type, group): the server side must send all nodes the same, through SecureGrid, and "
                "blindsum.flower.mod() must be the first of the mods",
            )
        return found
