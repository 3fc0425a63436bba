"""A node's folder for a job in Flower's messages: files, order, and the lock."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import blindsum as bs
from blindsum.flower import node_folder
from blindsum.flower.node_folder import Answer, JobFolder, Place


class Crash(BaseException):
    """The process ends here: no handler of errors runs."""


def folder_of(base, job="job", run="1", order=1):
    return JobFolder(str(base), job, "node-0", run, order)


def files(base):
    return sorted(str(file.relative_to(base)) for file in Path(base).rglob("*") if file.is_file())


# The folder


def test_what_was_stored_is_read_again(tmp_path):
    first, second = Answer([b"a", b""], {"party": "node-0"}), Answer(failed="no data")
    with folder_of(tmp_path).locked(0) as folder:
        assert folder.read() == node_folder.Stored(None, 0, None, Answer())
        folder.write(b"state", 3, Place(1, 0), first)
        assert folder.read() == node_folder.Stored(b"state", 3, Place(1, 0), first, 3)
    with folder_of(tmp_path).locked(0) as folder:
        folder.write(b"", 4, Place(1, 1), second)
        assert folder.read() == node_folder.Stored(b"", 4, Place(1, 1), second, 4)
    # Others on the machine read nothing.
    for path in Path(tmp_path).rglob("state"):
        assert path.stat().st_mode & 0o77 == 0


def test_files_are_written_whole_and_the_mark_after_the_state(tmp_path, monkeypatch):
    """A crash before each call of the system leaves an earlier pair, or a state above its mark."""
    seen = set()
    for crash in range(1, 100):
        base = tmp_path / str(crash)
        with folder_of(base).locked(0) as folder:
            folder.write(b"old", 1, Place(1, 0), Answer([b"old"]))
        calls = []

        def step(name, inner, *values, calls=calls, crash=crash):
            calls.append(name)
            if len(calls) == crash:
                raise Crash
            return inner(*values)

        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                inner = getattr(os, name)
                patch.setattr(os, name, lambda *values, n=name, i=inner: step(n, i, *values))
            try:
                with folder_of(base).locked(0) as folder:
                    folder.write(b"new", 2, Place(1, 1), Answer([b"new"]))
            except Crash:
                pass
        with folder_of(base).locked(0) as folder:
            found = folder.read()
        assert (found.state, found.answer.frames) in ((b"old", [b"old"]), (b"new", [b"new"]))
        seen.add((found.state, found.own_mark, found.mark))
        # Never a mark that is above its state.
        assert found.own_mark >= found.mark
        if len(calls) < crash:
            break
    # File, its name, its folder; twice.
    assert calls == ["fsync", "replace", "fsync"] * 2
    assert seen == {(b"old", 1, 1), (b"new", 2, 1), (b"new", 2, 2)}


@pytest.mark.parametrize(
    ("name", "content"),
    [("mark", b"two"), ("mark", None), ("state", b""), ("state", b"{}\n"), ("state", b'{"format":1')],
)
def test_damaged_files_are_named(tmp_path, name, content):
    with folder_of(tmp_path).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer())
    (file,) = Path(tmp_path).rglob(name)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(bs.StoreError, match=str(file)), folder_of(tmp_path).locked(0) as folder:
        folder.read()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(bs.StoreError, match="blindsum-state"),
        folder_of(tmp_path / "file").locked(0),
    ):
        pass


def test_errors_of_training_are_not_those_of_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError), folder_of(tmp_path).locked(0):
        raise FileNotFoundError("data.csv")


@pytest.mark.parametrize(
    ("place", "is_repeated"), [((2, 1), True), ((2, 2), False), ((3, 0), False), ((9, 0), False)]
)
def test_messages_that_may_come(place, is_repeated):
    stored = node_folder.Stored(b"", 1, Place(2, 1), Answer())
    assert stored.is_repeated(Place(*place)) is is_repeated


@pytest.mark.parametrize("place", [(2, 0), (2, 3), (1, 0), (1, 2), (3, 1)])
def test_messages_that_come_late_or_too_early_are_refused(place):
    stored = node_folder.Stored(b"", 1, Place(2, 1), Answer())
    with pytest.raises(bs.NetworkError, match="out of order"):
        stored.is_repeated(Place(*place))
    with pytest.raises(bs.NetworkError, match="out of order"):
        node_folder.Stored(None, 0, None, Answer()).is_repeated(Place(1, 1))
    with pytest.raises(bs.NetworkError, match="out of order"):
        node_folder.Stored(b"", 1, Place(2, 1), Answer(failed="x")).is_repeated(Place(2, 2))


HOLDS = """
import sys
from blindsum.flower.node_folder import JobFolder
with JobFolder(sys.argv[1], "job", "node-0", "1", 1).locked(0):
    print("holds", flush=True)
    sys.stdin.readline()
"""


def test_one_process_at_a_time(tmp_path):
    other = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout.readline() == b"holds\n"
        with pytest.raises(bs.WaitTimeoutError, match="another process"), folder_of(tmp_path).locked(0.1):
            pass
        # Another job does not wait.
        with folder_of(tmp_path, "other").locked(0):
            pass
        # A process that is killed holds nothing any more.
        entered = threading.Event()

        def wait():
            with folder_of(tmp_path).locked(60):
                entered.set()

        thread = threading.Thread(target=wait)
        thread.start()
        assert not entered.is_set()
        other.kill()
        assert entered.wait(60)
        thread.join()


def test_a_later_job_of_a_run_ends_the_earlier_ones(tmp_path):
    with folder_of(tmp_path, "first", "1", 1).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer())
    with folder_of(tmp_path, "of another run", "2", 1).locked(0):
        pass
    with folder_of(tmp_path, "second", "1", 2).locked(0):
        pass
    assert len([file for file in files(tmp_path) if file.endswith("/job")]) == 2
    with (
        pytest.raises(bs.SessionClosedError, match="'first' is over"),
        folder_of(tmp_path, "first").locked(0),
    ):
        pass
    # An earlier one does not end a later one.
    with folder_of(tmp_path, "third", "1", 0).locked(0), folder_of(tmp_path, "second", "1", 2).locked(0):
        pass


def test_jobs_of_other_runs_are_over_after_a_long_silence(tmp_path):
    for job in ("old", "young"):
        with folder_of(tmp_path, job, job).locked(0) as folder:
            folder.write(b"state", 1, Place(1, 0), Answer())
    old = folder_of(tmp_path, "old")._folder
    os.utime(old / "state", (1.0, 1.0))
    # Not while a process of the job runs.
    with folder_of(tmp_path, "old", "old").locked(0), folder_of(tmp_path, "new", "3").locked(0):
        pass
    assert old.exists()
    with folder_of(tmp_path, "newer", "4").locked(0):
        pass
    assert not old.exists()
    assert folder_of(tmp_path, "young")._folder.exists()
    with pytest.raises(bs.SessionClosedError), folder_of(tmp_path, "old", "old").locked(0):
        pass


def test_a_name_from_the_server_side_is_no_path(tmp_path):
    with folder_of(tmp_path / "state", "../../elsewhere").locked(0):
        pass
    assert all(file.startswith("state/messages/") for file in files(tmp_path))
