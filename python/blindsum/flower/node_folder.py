"""A node's folder for a job in Flower's messages: state and mark, stored before a reply leaves.

Flower runs a process for each message, and stores ``context.state`` after the reply has left: an earlier
state could come to life beside frames of a later one. So the node has a folder of its own. It has for each
job:

``state``
    The sealed state of the party, and in front of it the answer to the message that led to it.
``mark``
    The mark of the latest state, written after it. No backup and no snapshot may bring an earlier one back.
``lock``
    Held from before the state is read until the answer may leave, and no longer than the process lives.
    Processes that are forked from it meanwhile hold nothing.
``job``
    Whose folder it is: the run, the place of the job among its jobs, and the party.
``cleared``
    There once the folders of jobs that were over when this one began are removed.

Beside the folders of jobs is ``over``, the names of jobs that this node takes part in no more.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blindsum.errors import SessionClosedError, StoreError, WaitTimeoutError
from blindsum.flower import remembered
from blindsum.flower.durable import FileLock, write
from blindsum.flower.refusals import OutOfOrder
from blindsum.flower.texts import logger

FOLDER = "messages"
"""Under the node's ``blindsum-state``."""

IDLE = 30 * 24 * 3600.0
"""Seconds without a message after which this node takes part in a job of another run no more."""

LOOK = 0.05
"""Seconds between two looks whether another process of this node has ended."""

FORMAT = 1

OVER = "over"
"""The file of jobs that are over."""

CLEARED = "cleared"
"""The file that says that nothing of before is left to remove."""


@dataclass(frozen=True)
class Place:
    """Where a message stands in its job: connections are numbered, and the messages of each from 0 on.

    Attributes
    ----------
    link : int
        The connection; a later one has a higher number.
    number : int
        The message of this connection; 0 begins it.
    """

    link: int
    number: int


@dataclass(frozen=True)
class Answer:
    """What leaves the node as the answer to a message.

    Attributes
    ----------
    frames : list of bytes
        For the coordinator, in this order.
    told : mapping
        What the reply says beside them.
    failed : str
        Why there is no answer but an error; empty where there is one.
    """

    frames: list[bytes] = field(default_factory=list)
    told: Mapping[str, Any] = field(default_factory=dict)
    failed: str = ""


@dataclass(frozen=True)
class Step:
    """The latest step of the strategy in which the party was, and the latest update that it gave.

    Attributes
    ----------
    tag : int
        The round of the strategy.
    content : str
        The hash of what the node trains on in it, as hexadecimal digits; empty before the first one.
    number : int
        The round of the job to which the party has given an update whose end it has not heard yet; 0 where
        there is none. Rounds begin with 1.
    cohort : str
        The model and the parties of that round (:func:`blindsum.flower.trained.line_of`).
    """

    tag: int = 0
    content: str = ""
    number: int = 0
    cohort: str = ""


@dataclass(frozen=True)
class Stored:
    """What the folder has.

    Attributes
    ----------
    state : bytes or None
        The sealed state of the party; ``None`` in the beginning.
    mark : int
        The latest mark.
    place : Place or None
        The latest message that was answered.
    answer : Answer
        Its answer.
    own_mark : int
        The mark of ``state``: above ``mark`` where the process ended between the two, below it where the
        state is an old copy.
    step : Step
        What the party was in.
    """

    state: bytes | None
    mark: int
    place: Place | None
    answer: Answer
    own_mark: int = 0
    step: Step = Step()

    def is_repeated(self, place: Place) -> bool:
        """Whether a message is the latest one once more.

        Raises
        ------
        blindsum.flower.refusals.OutOfOrder
            It is none that may come now: one from before, or one behind another that has not come.
        """
        last = self.place
        if last is not None and place == last:
            return True
        begins = place.number == 0 and (last is None or place.link > last.link)
        follows = last is not None and (last.link, last.number + 1) == (place.link, place.number)
        if begins or (follows and not self.answer.failed):
            return False
        came = "none" if last is None else f"message {last.number} of connection {last.link}"
        raise OutOfOrder(
            f"message {place.number} of connection {place.link} is out of order: the latest one that this "
            f"node has answered is {came}. It came late, or this node's folder is an older copy; the "
            "ServerApp begins another connection with the next train message"
        )


class JobFolder:
    """The folder of a party in a job, alone among the processes of this node while it is open.

    Folders of jobs that are over are removed: those of an earlier job of the same run, and those of other
    runs that have had no message for :data:`IDLE` seconds. Their names stay, and this node takes no part in
    them again, so a removed folder never comes to life with new keys under an old number. Each message looks
    for such folders until none is left that another process holds.

    Parameters
    ----------
    base
        The node's ``blindsum-state``.
    job, name
        The job and the party.
    run, order
        The run, and the place of the job among its jobs.

    Examples
    --------
    ::

        with JobFolder(base, job, name, run, order).locked(30.0) as folder:
            stored = folder.read()
    """

    def __init__(self, base: str, job: str, name: str, run: str, order: int) -> None:
        self._base, self._job = base, job
        self._owner = {"run": run, "order": order, "name": name}
        self._place = Path(base) / FOLDER
        # Names come from the server side: none of them may be a path.
        self._folder = self._place / hashlib.sha256(f"{job}\n{name}".encode()).hexdigest()[:32]

    @contextmanager
    def locked(self, wait: float) -> Iterator[JobFolder]:
        """Hold the lock of the folder, which ends with the process at the latest.

        Parameters
        ----------
        wait
            Seconds to wait at most for another process of this node.

        Raises
        ------
        blindsum.WaitTimeoutError
            Another process of this node still answers a message of this job.
        blindsum.SessionClosedError
            The job is over for this node.
        blindsum.StoreError
            The folder cannot be used.
        """
        with self._writable():
            # No folder is made for a job that is over.
            if self._is_over():
                raise self._over()
            lock = self._lock(wait)
        with lock:
            with self._writable():
                self._begin()
            yield self

    @contextmanager
    def _writable(self) -> Iterator[None]:
        """Say which folder it is that cannot be used."""
        try:
            yield
        except WaitTimeoutError:
            raise
        except OSError as error:
            raise remembered.unwritable(Path(self._base), error) from error

    def _lock(self, wait: float) -> FileLock:
        """The lock, held; it is made again where another process removes it meanwhile."""
        until = time.monotonic() + wait
        while True:
            self._place.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):
                self._folder.mkdir(mode=0o700)
            try:
                lock = FileLock(self._folder / "lock")
            except FileNotFoundError:
                continue
            if lock.is_taken():
                if lock.is_there():
                    return lock
                lock.close()
                continue
            lock.close()
            if time.monotonic() >= until:
                raise WaitTimeoutError(
                    f"another process of this node still answers a message of job {self._job!r}, after "
                    f"{wait:.0f} s: it may be training. Raise the strategy's timeout, or "
                    "blindsum-give-up-after of the node"
                )
            time.sleep(LOOK)

    def _begin(self) -> None:
        """Look whether the job goes on for this node, and remove those that are over."""
        if self._is_over():
            # It has been removed since, and made again for this message.
            _remove(self._folder)
            raise self._over()
        if not (self._folder / "job").exists():
            write(self._folder / "job", json.dumps(self._owner).encode())
        if not (self._folder / CLEARED).exists() and _remove_old(self._place, self._folder, self._owner):
            (self._folder / CLEARED).touch(mode=0o600)

    def _is_over(self) -> bool:
        return self._folder.name in remembered.lines(self._place / OVER)

    def _over(self) -> SessionClosedError:
        return SessionClosedError(
            f"job {self._job!r} is over for this node: a later job of its run has begun, or it had no "
            f"message for {IDLE / 86400:.0f} days. Begin another run"
        )

    def read(self) -> Stored:
        """What was stored last.

        Raises
        ------
        blindsum.StoreError
            A file is missing or damaged, or cannot be read.
        """
        with self._writable():
            return self._read()

    def _read(self) -> Stored:
        mark, file = self._folder / "mark", self._folder / "state"
        if not mark.exists():
            if file.exists():
                raise _unusable(mark, "is missing, and the state beside it may be an old copy")
            write(mark, b"0")
        try:
            latest = int(mark.read_bytes())
        except ValueError:
            raise _unusable(mark, "holds no number") from None
        if not file.exists():
            return Stored(None, latest, None, Answer())
        header, state, frames = _split(file)
        answer = Answer(frames, header["told"], header["failed"])
        place, step = Place(header["link"], header["number"]), Step(**header["step"])
        return Stored(state, latest, place, answer, header["mark"], step)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Say of a state that no party can go on from where it is, and what to do.

        Raises
        ------
        blindsum.StoreError
            In place of one that names no file.
        """
        try:
            yield
        except StoreError as error:
            rule = "cannot be opened: it is damaged, or of another key than that of blindsum-identity"
            raise _unusable(self._folder / "state", rule) from error

    def write(self, state: bytes, mark: int, place: Place, answer: Answer, step: Step = Step()) -> None:
        """Store a state with its answer, and then its mark. After this the answer may leave.

        Raises
        ------
        blindsum.StoreError
            They cannot be written.
        """
        header = {
            "format": FORMAT,
            "link": place.link,
            "number": place.number,
            "mark": mark,
            "told": dict(answer.told),
            "failed": answer.failed,
            "step": dataclasses.asdict(step),
            "frames": [len(frame) for frame in answer.frames],
            "state": len(state),
        }
        first = json.dumps(header, separators=(",", ":")).encode()
        with self._writable():
            write(self._folder / "state", b"".join([first, b"\n", *answer.frames, state]))
        self.write_mark(mark)

    def write_mark(self, mark: int) -> None:
        """Store the mark of the latest state.

        Raises
        ------
        blindsum.StoreError
            It cannot be written.
        """
        with self._writable():
            write(self._folder / "mark", str(mark).encode())


def _remove_old(place: Path, own: Path, owner: Mapping[str, Any]) -> bool:
    """Remove the folders of jobs that are over, and give whether none is left that a process holds."""
    is_done = True
    for other in sorted(place.iterdir()):
        if other == own or other.is_symlink() or not other.is_dir():
            continue
        try:
            is_done &= _is_removed(other, owner)
        except FileNotFoundError:
            # Another process of this node removes the same ones.
            is_done = False
    return is_done


def _is_removed(folder: Path, owner: Mapping[str, Any]) -> bool:
    """Remove the folder of a job that is over; false where it is to be looked at again."""
    if not (_is_unused(folder) or _is_over(folder, owner)):
        return True
    with FileLock(folder / "lock") as lock:
        # Another process answers or begins there, or has removed it meanwhile.
        if not (lock.is_taken() and lock.is_there()):
            return False
        # Before the lock was taken, another message may have come.
        if _is_over(folder, owner):
            _end(folder.parent, folder.name)
        elif not _is_unused(folder):
            return True
        _remove(folder)
        logger.info("job folder %s is over, and removed", folder)
    return True


def _remove(folder: Path) -> None:
    """Remove a folder whose lock is held; what a kill leaves of it is removed by another job."""
    for file in folder.iterdir():
        if file.name in ("job", "lock"):
            continue
        if file.is_dir() and not file.is_symlink():
            shutil.rmtree(file)
        else:
            file.unlink()
    (folder / "job").unlink(missing_ok=True)
    # From here on another process may begin there; it looks whether the job is over.
    (folder / "lock").unlink()
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _is_unused(folder: Path) -> bool:
    """Whether a process has been killed before it began there, or it has not begun yet."""
    return {file.name for file in folder.iterdir()} <= {"lock", "job.new"}


def _end(place: Path, name: str) -> None:
    """Remember that a job is over, for good: the folder that is removed may never come to life again."""

    def change(known: list[str]) -> list[str]:
        return known if name in known else [*known, name]

    remembered.changed(place, OVER, change, is_bounded=False)


def _is_over(folder: Path, owner: Mapping[str, Any]) -> bool:
    """Whether the job of a folder is over, as the first message of another one tells.

    A folder that cannot be read is no matter of that other job: it is warned of, and stays as it is.
    """
    file, state = folder / "job", folder / "state"
    if not file.exists():
        return False
    try:
        job = json.loads(file.read_bytes())
        run, name, order = job["run"], job["name"], int(job["order"])
    except (ValueError, KeyError, TypeError) as error:
        logger.warning("%s", _unusable(file, f"is damaged ({error})"))
        return False
    if run == owner["run"]:
        return bool(name == owner["name"] and order < owner["order"])
    latest = (state if state.exists() else file).stat().st_mtime
    return latest + IDLE < time.time()


def _split(file: Path) -> tuple[dict[str, Any], bytes, list[bytes]]:
    """The parts of a state file."""
    first, found, rest = file.read_bytes().partition(b"\n")
    try:
        header: dict[str, Any] = json.loads(first)
        lengths = [*header["frames"], header["state"]]
        is_whole = bool(found) and header["format"] == FORMAT and sum(lengths) == len(rest)
    except (ValueError, KeyError, TypeError) as error:
        raise _unusable(file, f"is damaged ({error})") from None
    if not is_whole:
        raise _unusable(file, f"is damaged, or not of format {FORMAT}")
    parts, end = list[bytes](), 0
    for length in lengths:
        begin, end = end, end + length
        parts.append(rest[begin:end])
    return header, parts[-1], parts[:-1]


def _unusable(file: Path, why: str) -> StoreError:
    return StoreError(
        f"{file}: {why}; remove the folder {file.parent} while no ClientApp runs: the node then begins anew"
    )
