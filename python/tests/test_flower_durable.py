"""What a node remembers outlives a kill and a full disk; locks end with their process, whoever it forked."""

import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import blindsum as bs
from blindsum.flower import durable
from blindsum.flower.durable import FileLock
from blindsum.flower.measured import is_first_report
from blindsum.flower.node_folder import Answer, JobFolder, Place, Stored
from blindsum.flower.trained import Cohorts

PARTIES = ("a", "b", "c")


def script(text, *arguments):
    """Run a script, and give what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def is_refused(folder, model):
    """Whether the node knows that it has trained a model, and leaves what it knows as it is."""
    try:
        Cohorts(str(folder)).enter(model, ("others",))
    except bs.ConfigError:
        return True
    Cohorts(str(folder)).lost(model, ("others",))
    return False


# What is remembered

KILLED = """
import os, shutil, sys
from pathlib import Path
from blindsum.flower.trained import Cohorts

base, what = Path(sys.argv[1]), sys.argv[2]


def change(folder):
    cohorts = Cohorts(str(folder))
    if what == "lost":
        cohorts.lost("m1", ("a", "b", "c"))
    else:
        cohorts.enter("m3", ("a", "b", "c"))


def killed(folder, at):
    left = at

    def trace(frame, event, argument):
        nonlocal left
        if "/blindsum/flower/" not in frame.f_code.co_filename:
            return None
        left -= event == "line"
        if not left:
            os._exit(9)
        return trace

    sys.settrace(trace)
    change(folder)
    os._exit(0)


for at in range(1, 10_000):
    shutil.copytree(base / "0", base / str(at))
    child = os.fork()
    if not child:
        killed(base / str(at), at)
    if not os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        print(at)
        break
"""


@pytest.mark.parametrize("what", ["lost", "enter"])
def test_a_process_that_is_killed_at_any_line_forgets_nothing(tmp_path, what):
    for model in ("m1", "m2"):
        Cohorts(str(tmp_path / "0")).enter(model, PARTIES)
    last = int(script(KILLED, tmp_path, what))
    assert last > 10
    model, seen = ("m1", []) if what == "lost" else ("m3", [])
    for at in range(1, last + 1):
        assert is_refused(tmp_path / str(at), "m2"), at
        seen.append(is_refused(tmp_path / str(at), model))
    # It was the other way before, and at some line it has changed for good.
    assert seen == sorted(seen, reverse=what == "lost")
    assert set(seen) == {True, False}


FULL = """
import resource, sys
from blindsum.errors import StoreError
from blindsum.flower.trained import Cohorts

resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    Cohorts(sys.argv[1]).lost("m1", ("a", "b", "c"))
except StoreError as error:
    print(error)
"""


def test_a_disk_that_is_full_empties_no_memory(tmp_path):
    for model in ("m1", "m2", "m3"):
        Cohorts(str(tmp_path)).enter(model, PARTIES)
    told = script(FULL, tmp_path)
    assert told.startswith(f"blindsum-state {tmp_path}: ")
    assert told.endswith(
        "; let this process write it again: another folder would not know what this node has trained\n"
    )
    assert all(is_refused(tmp_path, model) for model in ("m1", "m2", "m3"))


REPORTS = """
import sys
from blindsum.flower.measured import is_first_report

for number in range(50):
    print(int(is_first_report(sys.argv[1], f"m{number}")), end="")
"""


def test_processes_that_remember_at_once_remember_all(tmp_path):
    started = [
        subprocess.Popen([sys.executable, "-c", REPORTS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told = [process.communicate()[0] for process in started]
    assert [sum(int(one[number]) for one in told) for number in range(50)] == [1] * 50
    assert not any(is_first_report(str(tmp_path), f"m{number}") for number in range(50))


OVER = """
import resource, sys
import blindsum
from blindsum.flower.node_folder import JobFolder

resource.setrlimit(resource.RLIMIT_FSIZE, (110, 110))
try:
    with JobFolder(sys.argv[1], "job 5", "node-0", "1", 5).locked(0):
        pass
except blindsum.StoreError as error:
    print(error)
"""


def test_a_disk_that_is_full_brings_no_job_back_that_was_over(tmp_path):
    def job(order):
        return JobFolder(str(tmp_path), f"job {order}", "node-0", "1", order)

    for order in range(1, 5):
        with job(order).locked(0):
            pass
    # Three jobs are over, and there is no room for the fourth.
    assert "blindsum-state" in script(OVER, tmp_path)
    with job(6).locked(0):
        pass
    for order in range(1, 6):
        with pytest.raises(bs.SessionClosedError), job(order).locked(0):
            pass


def full(folder, name):
    """Let a folder's file be written to a disk that is full, and give what ends that."""
    new = folder._folder / f"{name}.new"
    new.symlink_to("/dev/full")
    return new


@contextmanager
def refused(base, why):
    """It is said which folder it is, what is wrong with it, and what to do."""
    with pytest.raises(bs.StoreError) as caught:
        yield
    assert str(caught.value) == f"blindsum-state {base}: {why}"


def test_a_disk_that_is_full_is_named_and_the_folder_stays_as_it_is(tmp_path):
    why = "there is no room left on the disk; make room there"
    with folder_of(tmp_path).locked(0) as folder:
        new = full(folder, "mark")
        with refused(tmp_path, why):
            folder.read()
        new.unlink()
        folder.read()
        folder.write(b"old", 1, Place(1, 0), Answer())
        before = Stored(b"old", 1, Place(1, 0), Answer(), 1)
        new = full(folder, "state")
        with refused(tmp_path, why):
            folder.write(b"new", 2, Place(1, 1), Answer())
        new.unlink()
        assert folder.read() == before
        new = full(folder, "mark")
        with refused(tmp_path, why):
            folder.write_mark(2)
        with refused(tmp_path, why):
            folder.write(b"new", 2, Place(1, 1), Answer())
        new.unlink()
        assert folder.read() == Stored(b"new", 1, Place(1, 1), Answer(), 2)


@pytest.mark.parametrize("name", ["mark", "state"])
def test_a_file_that_cannot_be_read_is_named_with_the_cure(tmp_path, name):
    with folder_of(tmp_path).locked(0) as folder:
        folder.write(b"state", 1, Place(1, 0), Answer())
        (folder._folder / name).unlink()
        (folder._folder / name).mkdir()
        cure = "let this process write it again: another folder would not know what this node has trained"
        with refused(tmp_path, f"it is a folder; {cure}"):
            folder.read()


# Locks

HOLDS = """
import ctypes, os, sys
from blindsum.flower.node_folder import JobFolder

base, fork, told = sys.argv[1], sys.argv[2], int(sys.argv[3])
# A fork of the interpreter, or one of a library.
fork = os.fork if fork == "python" else ctypes.PyDLL(None).fork

with JobFolder(base, "job", "node-0", "1", 1).locked(0):
    if not fork():
        os.write(1, b"forked\\n")
        os.write(1, os.read(0, 6))
        os._exit(0)
    os.read(told, 1)
print("let go", flush=True)
os.read(told, 1)
"""


@contextmanager
def holder(base, fork):
    """A process that holds the lock of a folder, and lives, with another one that it has forked."""
    its_end, told = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(base), fork, str(its_end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[its_end],
    )
    os.close(its_end)
    with process:
        try:
            assert process.stdout.readline() == b"forked\n"
            with pytest.raises(bs.WaitTimeoutError), folder_of(base).locked(0):
                pass
            yield process, told
        finally:
            process.kill()
            os.close(told)
        # The forked one is there until now.
        process.stdin.write(b"there\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"there\n"


def folder_of(base):
    return JobFolder(str(base), "job", "node-0", "1", 1)


def test_a_forked_process_that_lives_longer_holds_no_folder(tmp_path):
    """Such as a worker that loads data, of a ClientApp that Flower ends."""
    with holder(tmp_path, "python") as (process, _):
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with folder_of(tmp_path).locked(0):
            pass


@pytest.mark.parametrize("fork", ["python", "library"])
def test_a_folder_that_is_let_go_is_free_whoever_was_forked(tmp_path, fork):
    with holder(tmp_path, fork) as (process, told):
        os.write(told, b"1")
        assert process.stdout.readline() == b"let go\n"
        with folder_of(tmp_path).locked(0):
            pass


CHILD = """
import json, os, sys
from pathlib import Path
from blindsum.flower.durable import FileLock

def is_free():
    with FileLock(Path(sys.argv[1])) as other:
        return other.is_taken()

with FileLock(Path(sys.argv[1])) as lock:
    lock.take()
    child = os.fork()
    if not child:
        # All that the parent's code does on its way out.
        lock.close()
        os._exit(0 if not is_free() else 1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps([status, is_free()]))
"""


def test_a_forked_process_lets_go_of_nothing_that_its_parent_holds(tmp_path):
    assert json.loads(script(CHILD, tmp_path / "lock")) == [0, False]


def test_the_files_of_locks_are_the_owners_alone(tmp_path):
    Cohorts(str(tmp_path / "state")).enter("m1", PARTIES)
    with folder_of(tmp_path / "state").locked(0), FileLock(tmp_path / "state" / "another"):
        pass
    found = [path for path in Path(tmp_path / "state").rglob("*") if path.is_file()]
    assert len(found) == 6
    assert all(path.stat().st_mode & 0o77 == 0 for path in found)


def test_no_process_is_forked_while_a_lock_is_let_go(tmp_path, monkeypatch):
    """It would have a copy of the opened file that nobody closes, and hold what its parent is killed with."""
    could = []

    def fork():
        could.append(durable._forking.acquire(blocking=False))
        if could[-1]:
            durable._forking.release()

    def watched(inner):
        def call(*values):
            thread = threading.Thread(target=fork)
            thread.start()
            thread.join()
            return inner(*values)

        return call

    lock = FileLock(tmp_path / "lock")
    lock.take()
    with monkeypatch.context() as patch:
        patch.setattr(durable.fcntl, "flock", watched(durable.fcntl.flock))
        patch.setattr(durable.os, "close", watched(os.close))
        lock.close()
    fork()
    assert could == [False, False, True]


def test_a_damaged_folder_of_another_job_stops_no_job(tmp_path, caplog):
    other = JobFolder(str(tmp_path), "other", "a", "run-1", 0)
    with other.locked(1.0):
        pass
    (folder,) = (tmp_path / "messages").iterdir()
    (folder / "job").write_bytes(b"{")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "messages" / "link").symlink_to(elsewhere)
    with JobFolder(str(tmp_path), "job", "a", "run-2", 0).locked(1.0):
        pass
    assert f"{folder / 'job'}: is damaged" in caplog.text
    assert folder.is_dir()
    assert list(elsewhere.iterdir()) == []


def test_a_damaged_memory_of_jobs_that_are_over_is_named(tmp_path):
    (tmp_path / "messages").mkdir()
    file = tmp_path / "messages" / "over"
    file.write_bytes(b"abc\n\xff\n")
    with (
        pytest.raises(bs.StoreError, match=rf"{file}: is damaged .*; restore it"),
        JobFolder(str(tmp_path), "job", "a", "run", 0).locked(1.0),
    ):
        pass
