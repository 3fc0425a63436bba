"""Files and words that commands are given: no output replaces an input, and every word has an answer."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_lines import JOB, refused, run

import blindsum as bs
from blindsum import checks, coordinator, pki
from blindsum.cli import main
from blindsum.cli.events import Lines
from blindsum.cli.files import check_file
from blindsum.cli.output import Output
from blindsum.session import Session
from experiments import output


@pytest.fixture
def here(place, tmp_path, monkeypatch):
    """A folder with a job, a training function and the files of a party and a coordinator."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    (tmp_path / "own_training.py").write_text("def step(model, number):\n    return model\n")
    place.identity("a")
    (tmp_path / "ca").symlink_to(place.folder)
    return tmp_path


# --- outputs


def test_the_same_file_is_known_by_other_names_and_before_it_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("")
    (tmp_path / "hard").hardlink_to(tmp_path / "a")
    (tmp_path / "soft").symlink_to("a")
    for other in ("a", "./a", "hard", "soft", tmp_path / "a"):
        with pytest.raises(bs.ConfigError, match="is a file of --store and would be replaced"):
            check_file("--out", "a", [("--store", other)])
    with pytest.raises(bs.ConfigError, match="would be replaced"):
        check_file("--out", "new", [("--store", tmp_path / "new")])
    check_file("--out", "a", [("--store", "b"), ("--crl", None)])


SERVE = ["serve", "--job", "job.toml", "--ca", "ca", "--identity", "ca/agg", "--store", "s", "--crl", "c"]
JOIN = ["join", "https://localhost:1", "--job", "job", "--ca", "ca", "--train", "own_training:step"]


@pytest.mark.parametrize(
    ("words", "outputs"),
    [
        (["model", "--store", "s"], ["s", "./s", "s-wal"]),
        (["backup", "--store", "s"], ["s", "s-shm"]),
        (SERVE, ["s", "job.toml", "ca/ca.pem", "ca/agg.pem", "ca/agg.key", "c", "s-wal"]),
        ([*JOIN, "--identity", "ca/a"], ["ca/ca.pem", "ca/a.pem", "ca/a.key", "own_training.py"]),
        ([*JOIN, "--cert", "ca/a.pem", "--key", "ca/a.key", "--crl", "c"], ["ca/a.pem", "ca/a.key", "c"]),
    ],
    ids=lambda value: value[0] if len(value) > 3 else "",
)
def test_no_output_replaces_an_input(words, outputs, here, capsys):
    for out in outputs:
        assert f"--out: {out} is a file of --" in refused(capsys, *words, "--out", out)


def test_the_final_model_may_replace_the_first_one(here, capsys):
    # Refused for what is wrong otherwise: there is no such model.
    err = refused(capsys, *SERVE[:-2], "--model", "m.npy", "--out", "m.npy")
    assert "--model: m.npy cannot be read" in err


def test_a_first_model_that_no_memory_holds_is_refused(here, capsys):
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
    with open("huge.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    err = refused(capsys, *SERVE, "--model", "huge.npy")
    assert "--model: huge.npy says that it holds more numbers than fit into memory" in err


def test_a_renewed_certificate_replaces_neither_request_nor_ca(tmp_path):
    ca = tmp_path / "ca"
    pki.init(ca)
    before = (ca / "ca.pem").read_bytes()
    request = pki.request("ca", tmp_path)
    with pytest.raises(bs.IdentityError, match="is the certificate of the CA, which the certificate would"):
        pki.sign(ca, request, out=ca, replace=True)
    assert (ca / "ca.pem").read_bytes() == before
    own = request.rename(tmp_path / "ca.pem")
    with pytest.raises(bs.IdentityError, match="is the request, which"):
        pki.sign(ca, own, "ca", replace=True)


# --- words


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["pki", "request", ""], "name '': must not be empty"),
        (["pki", "request", "/"], 'name "/": must be'),
        (["pki", "request", "."], 'name ".": must be'),
        (["pki", "sign", "ca", "a.csr", "--name", ""], "name '': must not be empty"),
        (["pki", "issue", "ca", "x", "--algorithm=--"], "argument --algorithm: '--' must not be its value"),
        (["simulate", "--protocol", "plain", "--parties", "3", "--dim", "4", "--set=--"], "argument --set"),
        (["backup", "--store", "s", "--out=--"], "(see `blindsum backup --help`)"),
        (["pki", "issue", "ca", "\udcff"], "argument 4: b'\\xff' must be UTF-8"),
        (["pki", "sign", "ca", "a.csr", "--name", "\udcff"], "--name: b'\\xff' must be UTF-8"),
        (["join", "https://x", "--job=\udcff"], "--job: b'--job=\\xff' must be UTF-8"),
        (["spec", "x", "--jsn"], "unrecognized arguments: --jsn (see `blindsum spec --help`)"),
        (["pki", "show", "x", "--jsn"], "(see `blindsum pki show --help`)"),
        (["spec", "nofile"], "error: JOB: nofile cannot be read"),
    ],
    ids=str,
)
def test_every_word_has_an_answer_of_a_line(words, text, here, capsys):
    assert text in refused(capsys, *words)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://a", "error: URL: "),
        ("https://a:1,https://b:1", "error: URL: 2 URLs: give the three servers of an mpc3 job"),
        ("https://a:1,https://a:1,https://c:1", "error: URL: "),
    ],
)
def test_join_says_of_its_address_what_it_is_called(url, text, here, capsys):
    err = refused(capsys, "join", url, *JOIN[2:], "--identity", "ca/a")
    assert text in err
    if "," in url and url.count(",") == 1:
        assert "paillier, give the coordinator's URL alone" in err


def test_python_names_what_is_no_text(tmp_path):
    pki.init(tmp_path)
    doors = [
        (lambda: pki.request(None, tmp_path), "name"),
        (lambda: pki.request("a", tmp_path, algorithm=3), "algorithm"),
        (lambda: pki.issue(tmp_path, "a", algorithm=3), "algorithm"),
        (lambda: pki.issue(tmp_path, None), "name"),
        (lambda: pki.issue(tmp_path, "a", hosts="localhost"), "hosts"),
        (lambda: pki.issue(tmp_path, "a", hosts=[3]), "hosts"),
        (lambda: pki.init(tmp_path / "b", name=None), "name"),
        (lambda: bs.join("https://x", job=None, identity="a", ca="b"), "job"),
        (lambda: bs.join("https://x", job="j", identity="a", ca="b", server_name=3), "server_name"),
    ]
    for door, field in doors:
        with pytest.raises(bs.ConfigError) as raised:
            door()
        assert raised.value.field == field
    for door in (lambda: pki.request(" ", tmp_path), lambda: pki.issue(tmp_path, "")):
        with pytest.raises(bs.IdentityError, match="must not be empty"):
            door()


# --- streams that are closed


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_traceback(closed, here):
    words = f"{sys.executable} -m blindsum spec job.toml {closed}"
    done = subprocess.run(words, shell=True, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["--version"], ["spec", "job.toml"]])
def test_output_that_cannot_be_written_is_a_failure(words, here):
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, "-m", "blindsum", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert found.returncode == 1
    told = "there is no space left on the disk: make room, or write elsewhere"
    assert found.stderr == f"blindsum: error: {told}\n"


def test_no_file_gets_the_number_of_a_closed_stream(tmp_path):
    code = (
        "from blindsum.cli.console import never_fail; never_fail(); "
        "import sys; sys.exit(open('store', 'w').fileno() <= 2)"
    )
    words = f'{sys.executable} -c "{code}" >&-'
    assert subprocess.run(words, shell=True, cwd=tmp_path, check=False).returncode == 0


# --- folders and files in the wrong place


def test_a_store_is_in_a_folder_and_none(here, capsys):
    (here / "dir").mkdir()
    for store, text in (
        ("dir", "--store: dir must be a file, not a folder"),
        ("no/s", "--store: no/s: there is no folder no"),
        ("/dev/null", "--store: /dev/null must be a file, and not a device"),
    ):
        assert text in refused(capsys, *SERVE[:7], "--store", store)
    for store, text in (
        ("dir", "store dir: must be a file, not a folder"),
        ("no/s", "store no/s: no such file; give the file of `blindsum serve --store`"),
        ("/dev/null", "must be a file, not a device"),
    ):
        assert main(["status", "--store", store]) == 1
        assert text in capsys.readouterr().err


def test_a_store_that_this_user_may_not_use_says_so(tmp_path, monkeypatch):
    (tmp_path / "s").write_text("")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(bs.ConfigError, match="must be writable by this user"):
        checks.store(tmp_path / "s")
    with pytest.raises(bs.StoreError, match="may not be read by this user"):
        coordinator.stored_jobs(tmp_path / "s")


def test_a_file_is_no_folder(here, capsys):
    for words, option in (
        (["pki", "init", "job.toml"], "folder"),
        (["pki", "init", "job.toml/ca"], "folder"),
        ([*SERVE[:7], "--results", "job.toml"], "--results"),
        ([*JOIN, "--identity", "ca/a", "--state-dir", "job.toml/x"], "--state-dir"),
    ):
        err = refused(capsys, *words)
        assert f"error: {option}: " in err
        assert "must be a folder, and job.toml is a file" in err
    with pytest.raises(SystemExit):
        output.options(["--quick", "--out", "job.toml"], "x", "")
    assert "--out: job.toml cannot be a folder" in capsys.readouterr().err


def test_a_folder_that_pki_may_not_write_to_says_so(tmp_path, monkeypatch):
    pki.init(tmp_path / "ca")

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.replace", denied)
        with pytest.raises(
            bs.IdentityError, match=r"cannot be written: this user may not do that there; give"
        ):
            pki.revoke(tmp_path / "ca", [])
        patched.setattr("os.open", denied)
        with pytest.raises(
            bs.IdentityError, match=r"cannot be written: this user may not do that there; give"
        ):
            pki.revoke(tmp_path / "ca", [])
    assert not list((tmp_path / "ca").glob(".*.new"))
    monkeypatch.setattr("pathlib.Path.mkdir", denied)
    with pytest.raises(bs.IdentityError, match=r"cannot be written: this user may not do that there; give"):
        pki.init(tmp_path / "other")


@pytest.mark.parametrize("value", ["1e300", "-1e300"])
def test_a_limit_beyond_all_is_not_printed(value, here, capsys):
    err = refused(capsys, *SERVE[:7], "--limit", f"reconnect_grace={value}")
    assert "limits.reconnect_grace: must be from -2^64 to 2^64" in err


# --- what is told, and what is held


def test_a_party_that_leaves_again_is_told_again(capsys):
    lines = Lines(Output())
    for left in ({"a": "closed"}, {"a": "closed"}, {}, {"a": "closed"}):
        lines._departed(left)
    assert capsys.readouterr().out == "a has left: closed\n" * 2


class Played:
    """A round as the loop sees it."""

    def __init__(self, number, error=None):
        self.number, self.error = number, error
        self.submitted, self.lost = True, None

    def skip(self):
        pass

    def result(self, timeout=None):
        if self.error is not None:
            raise self.error


def test_a_round_that_has_begun_is_not_dropped_with_the_one_before():
    session = object.__new__(Session)
    session._found = None
    rounds = iter([Played(1, bs.RoundUnknown(1, "restarted")), Played(2), None])
    real = Session._next_round

    class Native:
        def next_round(self, _timeout, _tells_held):
            return next(rounds)

    session._native = Native()
    # The rounds are made already.
    session._next_round = lambda **_: real(session) if session._found else next(rounds)
    seen = []
    with pytest.raises(bs.RoundUnknown):
        for current in session.rounds():
            seen.append(current.number)
    for current in session.rounds():
        seen.append(current.number)
    assert seen == [1, 2]


def test_help_of_serve_shows_a_command_that_can_be_pasted():
    status, text, _ = run("serve", "--help")
    assert status == 0
    assert "--membership etcd://etcd.example:2379 \\\n    --membership-identity" in text


PROGRAMS = [[sys.executable, "-m", "blindsum"], [Path(sys.executable).parent / "blindsum"]]


@pytest.mark.parametrize("command", PROGRAMS)
def test_names_and_paths_are_utf8_in_every_locale(command, tmp_path):
    """Where the locale is ASCII, Python hands over words of other bytes as it cannot read them."""
    words = [*command, "pki", "init", "größe"]
    locale = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(words, cwd=tmp_path, env=locale, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "größe" / "ca.pem").exists()
    assert "größe".encode() in done.stdout
