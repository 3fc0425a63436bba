"""The plan of a round: what may be said in it, known before it begins."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One exchange of a round, in one direction: each speaker may say one message to each hearer.

    A stage has two steps: somebody answers the coordinator, then the coordinator says what came of it. No
    machine says more, or says it to others, than its plan allows.

    Attributes
    ----------
    stage : int
        The number of its stage, from 0, which its messages carry.
    name : str
        The name of its stage.
    speaker : str
        Who may speak: ``"parties"``, ``"few"`` of them, ``"party N"`` by rank, ``"coordinator"``,
        ``"servers"`` (all servers but the coordinator), or the name of one server.
    hearer : str
        Who is spoken to, by the same names.
    input : bool
        Whether the messages are made from the parties' updates: the vectors, or in sparse rounds of
        ``flashe`` the places that they have words for.
    relayed : bool
        Whether pieces of the messages are passed on in the next step.
    optional : bool
        Whether the coordinator may skip the step. The outcome of a stage is told also where its answers are
        skipped.
    enough : int
        With fewer messages than this the round does not go on. A protocol may need more.
    largest : int
        Bytes of the largest message, with its frame.
    deadline : float
        Seconds for the whole step.
    """

    stage: int
    name: str
    speaker: str
    hearer: str
    input: bool
    relayed: bool
    optional: bool
    enough: int
    largest: int
    deadline: float
