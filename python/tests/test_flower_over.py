"""Folders of jobs that are over are removed, whoever comes in between and wherever a process is killed."""

import os
import subprocess
import sys

import pytest

import blindsum as bs
from blindsum.flower.durable import FileLock
from blindsum.flower.node_folder import Answer, JobFolder, Place


def job_of(base, job):
    """A job of run 1, with its place in its name; or the first one of a run of its name."""
    run, order = ("1", int(job)) if job.isdigit() else (job, 1)
    return JobFolder(str(base), job, "node-0", run, order)


def used(base, *jobs, is_idle=False):
    for job in jobs:
        with job_of(base, job).locked(0) as folder:
            folder.write(b"state", 1, Place(1, 0), Answer())
        if is_idle:
            os.utime(folder._folder / "state", (1.0, 1.0))


def left(base):
    """The names of the folders of jobs."""
    return {path.name for path in (base / "messages").iterdir() if path.is_dir()}


def names(base, *jobs):
    return {job_of(base, job)._folder.name for job in jobs}


TRACED = """
import os, shutil, sys
from contextlib import suppress
from pathlib import Path
import blindsum
from blindsum.flower import node_folder
from blindsum.flower.node_folder import JobFolder

base, what = Path(sys.argv[1]), sys.argv[2]


def message(at, job):
    run, order = ("1", int(job)) if job.isdigit() else (job, 1)
    with JobFolder(str(base / str(at)), job, "node-0", run, order).locked(0):
        pass


def meanwhile(at):
    if what == "killed":
        os._exit(9)
    # Another process holds what it holds, but waits for nobody.
    with suppress(blindsum.SessionClosedError, blindsum.WaitTimeoutError):
        message(at, what)


def stopped_at(at):
    left = at

    def trace(frame, event, argument):
        nonlocal left
        code = frame.f_code
        # Where other processes would wait, none can go on in this one.
        is_alone = code.co_filename == node_folder.__file__ and code.co_name != "change"
        if not (is_alone or (what == "killed" and "/blindsum/flower/" in code.co_filename)):
            return None
        left -= event == "line"
        if not left:
            sys.settrace(None)
            meanwhile(at)
            return None
        return trace

    sys.settrace(trace)
    message(at, "2")
    os._exit(0 if left > 0 else 3)


for at in range(1, 10_000):
    shutil.copytree(base / "0", base / str(at))
    child = os.fork()
    if not child:
        try:
            stopped_at(at)
        finally:
            sys.settrace(None)
            sys.stderr.flush()
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if found not in (0, 3, 9):
        sys.exit(f"line {at}: {found}")
    if not found:
        print(at)
        break
"""


@pytest.mark.parametrize("what", ["killed", "1", "another"])
def test_what_is_over_is_removed_whatever_happens_meanwhile(tmp_path, what):
    """Job 2 begins, and at any line it is killed, or a message of job 1 or the first one of a run comes."""
    used(tmp_path / "0", "x", "y", is_idle=True)
    used(tmp_path / "0", "1")
    command = [sys.executable, "-c", TRACED, str(tmp_path), what]
    last = int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert last > 30
    alive = {"2", "another"} if what == "another" else {"2"}
    for at in range(1, last + 1):
        base = tmp_path / str(at)
        # Their next messages.
        for job in (*alive, "2"):
            with job_of(base, job).locked(0):
                pass
        for job in ("1", "x", "y"):
            with pytest.raises(bs.SessionClosedError), job_of(base, job).locked(0):
                pass
        assert left(base) == names(base, *alive), at


def test_a_job_that_still_runs_is_over_with_the_next_message(tmp_path):
    used(tmp_path, "1")
    with job_of(tmp_path, "1").locked(0), job_of(tmp_path, "2").locked(0):
        pass
    assert left(tmp_path) == names(tmp_path, "1", "2")
    with job_of(tmp_path, "2").locked(0):
        pass
    assert left(tmp_path) == names(tmp_path, "2")
    with pytest.raises(bs.SessionClosedError), job_of(tmp_path, "1").locked(0):
        pass


def test_a_job_that_has_had_a_message_since_is_not_removed(tmp_path, monkeypatch):
    """It was idle when it was looked at, and its process has ended before its lock was taken."""
    used(tmp_path, "idle", is_idle=True)
    inner = FileLock.__init__

    def comes_before(lock, path):
        if path.parent.name in names(tmp_path, "idle"):
            monkeypatch.undo()
            used(tmp_path, "idle")
        inner(lock, path)

    monkeypatch.setattr(FileLock, "__init__", comes_before)
    used(tmp_path, "new")
    assert left(tmp_path) == names(tmp_path, "idle", "new")
    used(tmp_path, "idle")


def test_a_job_that_is_damaged_meanwhile_stays_as_it_is(tmp_path, monkeypatch, caplog):
    """It was idle when it was looked at, and its first message is damaged before its lock was taken."""
    used(tmp_path, "idle", is_idle=True)
    inner = FileLock.__init__

    def damaged_before(lock, path):
        if path.parent.name in names(tmp_path, "idle"):
            monkeypatch.undo()
            (path.parent / "job").write_bytes(b"{")
        inner(lock, path)

    monkeypatch.setattr(FileLock, "__init__", damaged_before)
    used(tmp_path, "new")
    assert left(tmp_path) == names(tmp_path, "idle", "new")
    assert "is damaged" in caplog.text
