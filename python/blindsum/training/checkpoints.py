"""The folder of a simulated run: what is needed to go on after a stop."""

from __future__ import annotations

import fcntl
import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from blindsum import checks
from blindsum.errors import ConfigError, InputError
from blindsum.pki.files import FILE_MODE
from blindsum.spec import JobSpec
from blindsum.training.record import TrainingRecord, TrainingRound

if TYPE_CHECKING:
    from blindsum.pki import AnyPath

Best = tuple[str, int, int, float, int]
"""The best value of a metric: its name, round, version of the model, value, and the rounds since then."""

State = tuple[int, bytes, int, int, bytes, list[bytes], tuple[Best, bytes] | None]
"""What the simulated job needs to go on, as the native module gives it."""

PlainState = tuple[int, bytes]

ASKED, STATE, RECORD, BEST = "run.json", "state.npz", "record.jsonl", "best-model.npy"
"""What the run is, the state of the job after its rounds, the rounds, and the best model."""


def write_best(record: TrainingRecord, folder: Path) -> None:
    """Write the best model of a run into its folder, where it has one."""
    if record.best_model is None or record.best_model.model is None:
        return
    import numpy as np

    beside = folder / f".{BEST}"
    with beside.open("wb") as file:
        np.save(file, record.best_model.model)
    beside.replace(folder / BEST)


_DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    OverflowError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    InputError,
)
"""What reading a damaged archive raises."""


def _private(path: Path) -> IO[bytes]:
    """A new file that nobody else can read: it holds parts of updates that were never sent.

    Nothing is written through a link that somebody has put in its place.
    """
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb")


class Checkpoints:
    """Where a run is kept after each round; nowhere without a folder. Use it in a ``with`` statement.

    Attributes
    ----------
    rounds : tuple of TrainingRound
        The rounds that were kept.
    state : tuple or None
        The state of the simulated job after them.
    plain : tuple or None
        The model of plain FedAvg after them.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock: IO[str] | None = None
        self.rounds: tuple[TrainingRound, ...] = ()
        self.state: State | None = None
        self.plain: PlainState | None = None

    @classmethod
    def of(cls, out: AnyPath | None, spec: JobSpec, settings: Mapping[str, Any]) -> Self:
        """Open the folder, and read what is in it.

        Raises
        ------
        blindsum.ConfigError
            It cannot be written to, another process uses it, or it holds another run.
        """
        if out is None:
            return cls(None)
        folder = Path(checks.folder("out", out))
        made = cls(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            made._lock = (folder / ASKED).open("a+", encoding="utf-8")
        except OSError as error:
            rule = f"{folder} cannot be written to: {error.strerror}; give another folder"
            raise ConfigError("out", rule) from error
        try:
            made._begin(json.dumps({"job_hash": spec.hash, **settings}, sort_keys=True))
        except BaseException:
            made._lock.close()
            raise
        return made

    def keep(self, record: TrainingRecord, state: State, plain: PlainState | None) -> None:
        """Keep a run after a round.

        The rounds are written before the state, which says how many of them it is after.
        """
        if self._folder is None:
            return
        import numpy as np

        version, model, done, again, chain, leftovers, best = state
        numbers = [len(record.rounds), version, done, again, -1 if plain is None else plain[0]]
        parts = {"model": model, "chain": chain, "plain": b"" if plain is None else plain[1]}
        parts |= {f"leftover-{rank}": left for rank, left in enumerate(leftovers)}
        if best is not None:
            parts |= {"best": json.dumps(best[0]).encode(), "best-model": best[1]}
        arrays: dict[str, Any] = {name: np.frombuffer(part, np.uint8) for name, part in parts.items()}
        record.to_jsonl(self._folder / RECORD)
        beside = self._folder / f".{STATE}"
        # guard: a-state-is-for-its-owner
        with _private(beside) as file:
            np.savez(file, numbers=np.array(numbers, np.int64), **arrays)
        beside.replace(self._folder / STATE)

    def write_best(self, record: TrainingRecord) -> None:
        """Write the best model of a run that has ended."""
        if self._folder is not None:
            write_best(record, self._folder)

    def _begin(self, asked: str) -> None:
        """Take the folder for this run, and read what is kept of it."""
        assert self._lock is not None
        try:
            # guard: one-run-for-a-folder
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            rule = f"{self._folder} is used by another run now; wait for its end, or give another folder"
            raise ConfigError("out", rule) from error
        self._lock.seek(0)
        there = self._lock.read()
        if there and there != asked:
            rule = f"{self._folder} holds a run of another job, or with other settings; give another folder"
            raise ConfigError("out", rule)
        if not there:
            self._lock.write(asked)
            self._lock.flush()
        self._read()

    def _read(self) -> None:
        assert self._folder is not None
        path = self._folder / STATE
        if not path.exists():
            return
        import numpy as np

        try:
            with path.open("rb") as file, np.load(file) as arrays:
                parts = {name: arrays[name].tobytes() for name in arrays.files if name != "numbers"}
                count, version, done, again, plain = (int(number) for number in arrays["numbers"])
            if min(count, version, done, again, plain + 1) < 0:
                raise ValueError("a negative number")
            leftovers = [part for name, part in parts.items() if name.startswith("leftover-")]
            best = None
            if "best" in parts:
                metric, number, of, value, since = json.loads(parts["best"])
                best = ((metric, number, of, value, since), parts["best-model"])
            self.state = (version, parts["model"], done, again, parts["chain"], leftovers, best)
            self.plain = None if plain < 0 else (plain, parts["plain"])
            rounds = TrainingRecord.from_jsonl(self._folder / RECORD).rounds
            if count > len(rounds):
                raise ValueError(f"it is of {count} rounds, and {RECORD} has {len(rounds)}")
            # guard: a-run-goes-on-from-its-state
            self.rounds = rounds[:count]
        except _DAMAGED as error:
            raise self.damaged(error) from error

    def damaged(self, error: Exception) -> ConfigError:
        """The error of a state that cannot be used."""
        assert self._folder is not None
        what = str(error) or type(error).__name__
        if "pickle" in what:
            # numpy advises to load it all the same, which would run what is in it.
            what = "it is no archive of numbers"
        return ConfigError("out", f"{self._folder / STATE} cannot be used: {what}; give another folder")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.close()
