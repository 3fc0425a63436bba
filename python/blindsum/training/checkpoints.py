"""The folder of a simulated run: what is needed to go on after a stop."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from blindsum import checks
from blindsum.errors import ConfigError
from blindsum.spec import JobSpec
from blindsum.training.record import TrainingRound

if TYPE_CHECKING:
    from blindsum.pki import AnyPath

State = tuple[int, bytes, int, int, bytes, list[bytes]]
"""What the simulated job needs to go on, as the native module gives it."""

PlainState = tuple[int, bytes]

ASKED, KEPT = "training.json", "state.npz"


class Checkpoints:
    """Where a run is kept after each round; nowhere without a folder.

    Attributes
    ----------
    rounds : list of TrainingRound
        The rounds that were kept.
    state : tuple or None
        The state of the simulated job after them.
    plain : tuple or None
        The model of plain FedAvg after them.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock: Any = None
        self.rounds: list[TrainingRound] = []
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
        asked = json.dumps({"job_hash": spec.hash, **settings}, sort_keys=True, default=str)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            made._lock = (folder / ASKED).open("a+", encoding="utf-8")
            fcntl.flock(made._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            rule = f"{folder} is used by another run now; wait for its end, or give another folder"
            raise ConfigError("out", rule) from error
        except OSError as error:
            rule = f"{folder} cannot be written to: {error.strerror}; give another folder"
            raise ConfigError("out", rule) from error
        made._lock.seek(0)
        if (there := made._lock.read()) and there != asked:
            rule = f"{folder} holds a run of another job or with other settings; give another folder"
            raise ConfigError("out", rule)
        if not there:
            made._lock.write(asked)
            made._lock.flush()
        made._read()
        return made

    def keep(self, one: TrainingRound, state: State, plain: PlainState | None) -> None:
        """Keep the state after a round: at every moment the folder has the old one or the new one, whole."""
        self.rounds.append(one)
        if self._folder is None:
            return
        import numpy as np

        version, model, done, again, chain, leftovers = state
        arrays: dict[str, Any] = {
            "numbers": np.array([version, done, again, -1 if plain is None else plain[0]], dtype=np.int64),
            "model": np.frombuffer(model, np.uint8),
            "chain": np.frombuffer(chain, np.uint8),
            "plain": np.frombuffer(b"" if plain is None else plain[1], np.uint8),
            "rounds": np.array(json.dumps([dict_of(one) for one in self.rounds])),
        }
        arrays |= {
            f"leftover-{rank}": np.frombuffer(left, np.uint8) for rank, left in enumerate(leftovers)
        }
        beside = self._folder / f".{KEPT}.new.npz"
        np.savez(beside, **arrays)
        beside.replace(self._folder / KEPT)

    def _read(self) -> None:
        assert self._folder is not None
        path = self._folder / KEPT
        if not path.exists():
            return
        import numpy as np

        try:
            with np.load(path) as arrays:
                version, done, again, plain = (int(number) for number in arrays["numbers"])
                count = sum(name.startswith("leftover-") for name in arrays.files)
                leftovers = [arrays[f"leftover-{rank}"].tobytes() for rank in range(count)]
                model, chain = arrays["model"].tobytes(), arrays["chain"].tobytes()
                self.state = (version, model, done, again, chain, leftovers)
                self.plain = None if plain < 0 else (plain, arrays["plain"].tobytes())
                self.rounds = [round_of(one) for one in json.loads(str(arrays["rounds"]))]
        except (OSError, ValueError, KeyError) as error:
            raise ConfigError("out", f"{path} is damaged: {error}; give another folder") from error

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
