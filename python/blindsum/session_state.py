"""What a session knows of its job beside the rounds."""

from __future__ import annotations

from blindsum import _native
from blindsum.display import Shown
from blindsum.rounds import Array
from blindsum.spec import JobSpec


class JobState(Shown):
    """What the coordinator has said of the job; any thread may read it at any time."""

    spec: JobSpec
    _native: _native.Party
    _final: Array | None = None

    @property
    def held(self) -> str:
        """By whom the job is paused and why, in the coordinator's words; empty where nothing holds it.

        While it is not empty no round begins. It is what the coordinator said last, also while the connection
        is lost. :meth:`rounds` can call a function where it changes, and the log has it.
        """
        return self._native.held()

    @property
    def final_model(self) -> Array | None:
        """The last model of the job, read-only, shape ``(dim,)``, once no more rounds will come.

        It is there after :meth:`close`, too. ``None`` before that, where the job keeps no model, and at a
        party of ``flashe`` that missed the last round.
        """
        if self._final is not None or self.spec.model_update == "none":
            return self._final
        return self._native.final_model()

    @property
    def done_early(self) -> str:
        """Why the job was done before its rounds were (``stop`` of the job); else, and before that, empty."""
        return self._native.done_early()
