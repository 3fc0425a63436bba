"""Text that comes in and goes out in every locale, training functions, and signals in the first moments."""

import ast
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from command_lines import JOB, refused, run

import blindsum as bs
from blindsum import texts
from blindsum.cli import SUBCOMMANDS
from blindsum.cli.jobs import spec_from_file
from blindsum.cli.training import RoundNumber, training_function

PACKAGE = Path(bs.__file__).parent
NAMED = """# Umlaut: größe
encoding = { name = "quantised", tensors = [{ name = "größe", len = 10, clip = 1.0 }] }
"""

# --- text files


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"a", "a"),
        ("größe".encode(), "größe"),
        ("\ufeffgröße".encode(), "größe"),
        (b"", ""),
        (b"\xef\xbb\xbf", ""),
    ],
)
def test_text_is_utf_8(data, text):
    assert texts.decoded(data) == text


@pytest.mark.parametrize(
    ("encoding", "part"),
    [
        ("utf-16", "UTF-16"),
        ("utf-16-le", "UTF-16"),
        ("utf-16-be", "UTF-16"),
        ("utf-32", "UTF-16"),
        ("latin-1", "at byte 2"),
    ],
)
def test_other_text_says_what_to_do(encoding, part):
    with pytest.raises(ValueError, match=part) as raised:
        texts.decoded("größe".encode(encoding))
    assert "save it as UTF-8" in str(raised.value)


def test_a_job_file_means_the_same_in_every_locale(tmp_path):
    (tmp_path / "job.toml").write_bytes((NAMED + JOB).encode())
    (tmp_path / "bom.TOML").write_bytes(("\ufeff" + NAMED + JOB).encode())
    fields = {"protocol": "secagg", "parties": 3, "dim": 10}
    tensors = [{"name": "größe", "len": 10, "clip": 1.0}]
    fields["encoding"] = {"name": "quantised", "tensors": tensors}
    text = json.dumps(fields, ensure_ascii=False)
    (tmp_path / "job.JSON").write_bytes(text.encode())
    (tmp_path / "bom.json").write_bytes(("\ufeff" + text).encode())
    wanted = bs.JobSpec.from_dict(fields).hash
    ascii_only = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    for name in ("job.toml", "bom.TOML", "job.JSON", "bom.json"):
        assert spec_from_file(str(tmp_path / name)).hash == wanted
        status, out, err = run("spec", tmp_path / name, **ascii_only)
        assert (status, out.splitlines()[0]) == (0, f"# hash {wanted}"), err


def test_a_job_file_in_another_encoding_is_refused(tmp_path, capsys):
    for encoding, part in (("utf-16", "UTF-16"), ("latin-1", "no UTF-8 text at byte")):
        (tmp_path / "job.toml").write_bytes((NAMED + JOB).encode(encoding))
        assert part in refused(capsys, "spec", tmp_path / "job.toml")


def test_what_is_nested_too_deeply_is_refused(tmp_path, capsys):
    (tmp_path / "job.toml").write_text(f"dim = {'[' * 5000}{']' * 5000}\n")
    (tmp_path / "job.json").write_text(f'{{"dim": {"[" * 100_000}{"]" * 100_000}}}')
    for name in ("job.toml", "job.json"):
        assert "nested too deeply" in refused(capsys, "spec", tmp_path / name)
    simulate = ["simulate", "--protocol", "plain", "--parties", "3", "--dim", "1"]
    assert "nested too deeply" in refused(capsys, *simulate, "--set", f"tensors={'[' * 100_000}")
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(bs.SpecError, match="nested more than") as raised:
        bs.JobSpec(protocol="plain", parties=3, dim=1, encoding={"name": "quantised", "tensors": deep})
    assert raised.value.field == "encoding"


def test_no_file_is_opened_in_the_encoding_of_the_locale():
    """Every call that reads or writes text names its encoding."""
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            name = getattr(call.func, "attr", getattr(call.func, "id", ""))
            modes = [
                word.value
                for word in call.args
                if isinstance(word, ast.Constant) and isinstance(word.value, str)
            ]
            is_text = name in ("read_text", "write_text") or (
                name in ("open", "fdopen") and any(re.fullmatch("[rwa]t?", mode) for mode in modes)
            )
            if is_text:
                given = {keyword.arg for keyword in call.keywords}
                assert "encoding" in given, f"{path}:{call.lineno}"


# --- output


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
@pytest.mark.parametrize("command", SUBCOMMANDS)
def test_help_is_written_in_every_encoding(command, encoding):
    status, out, err = run(command, "--help", encoding=encoding, PYTHONIOENCODING=encoding, PYTHONUTF8="0")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: blindsum {command}")


def test_messages_are_written_in_every_encoding(tmp_path):
    (tmp_path / "job.toml").write_bytes((NAMED + JOB).encode())
    status, out, err = run(
        "spec", tmp_path / "job.toml", encoding="ascii", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert status == 0, err
    assert "gr\\xf6\\xdfe" in out
    status, _, err = run(
        "spec", tmp_path / "größe.toml", encoding="ascii", PYTHONIOENCODING="ascii", PYTHONUTF8="0"
    )
    assert status == 2
    assert "cannot be read" in err


# --- training functions


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder for modules, which is the current one; what is imported from it is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("def step(:\n    pass\n", ["SyntaxError", "bad0.py, line 1"]),
        ("x = 1\n\nraise ValueError('no data')\n", ["ValueError: no data", "bad1.py, line 3"]),
        ("import json\n\njson.loads('{')\n", ["JSONDecodeError", "bad2.py, line 3"]),
        ("import nothing_of_this_name\n", ["nothing_of_this_name", "bad3.py, line 1"]),
        ("import sys\nsys.exit(3)\n", ["SystemExit: 3", "bad4.py, line 2"]),
        ("step = 3\n", ["has no function but a int called step"]),
        ("other = 3\n", ["has no function step"]),
        ("def f():\n    f()\n\nf()\n", ["RecursionError", "bad7.py"]),
    ],
)
def test_what_is_wrong_with_a_training_module_is_said_in_a_line(text, parts, modules, request):
    name = f"bad{request.node.callspec.indices['text']}"
    (modules / f"{name}.py").write_text(text)
    with pytest.raises(bs.ConfigError) as raised:
        training_function(f"{name}:step")
    assert raised.value.field == "--train"
    for part in parts:
        assert part in raised.value.rule
    assert "\n" not in raised.value.rule


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("../x:step", "is no name of a module"),
        (".x:step", "is no name of a module"),
        ("a b:step", "is no name of a module"),
        ("training.py:step", "leave .py out"),
        ("nowhere:step", "there is no module nowhere"),
        ("nowhere.deeper:step", "there is no module nowhere.deeper"),
        ("training", "MODULE:FUNCTION"),
        (":step", "MODULE:FUNCTION"),
        ("training:", "MODULE:FUNCTION"),
        ("training:step.inner", "has no function step.inner"),
    ],
)
def test_a_name_that_is_none_is_refused(text, part, modules):
    (modules / "training.py").write_text("def step(model, round):\n    return model\n")
    with pytest.raises(bs.ConfigError, match=re.escape(part)):
        training_function(text)


def test_a_module_that_cannot_be_imported_is_no_traceback(tmp_path, place):
    (tmp_path / "training.py").write_text("def step(:\n")
    words = ["--job", "job", "--ca", place.folder / "ca.pem", "--identity", place.identity("a")]
    status, _, err = run("join", "https://localhost:1", *words, "--train", "training:step", cwd=tmp_path)
    assert status == 2
    assert err.count("\n") == 1
    assert "training.py, line 1" in err


def test_the_number_of_a_round_is_also_an_object():
    class Here:
        number, parties = 7, ["a", "b"]

    number = RoundNumber.of(Here)
    assert (number, number + 1, f"{number}", json.dumps([number])) == (7, 8, "7", "[7]")
    assert (number.number, number.parties) == (7, ("a", "b"))
    assert np.random.default_rng([1, number]).random() == np.random.default_rng([1, 7]).random()


def test_an_example_of_a_stage_is_one_of_the_job():
    for protocol in ("secagg", "plain", "pss", "flashe", "mpc3"):
        spec = bs.JobSpec(protocol=protocol, parties=8, dim=2, dropout=0.25)
        with pytest.raises(bs.ConfigError) as raised:
            bs.simulate(spec, drop_at=[("unmask", 1)])
        example = re.search(r"e\.g\. '([^']*)'", raised.value.rule).group(1)
        assert bs.simulate(spec, drop_at=[example], seed=1).outcome in ("sum", "abort")


# --- signals before a command has handlers of its own

SIGNALLED = """
import builtins, os, sys
from blindsum import __main__

moment, number = sys.argv.pop(1), int(sys.argv.pop(1))
known = builtins.__import__

def hooked(name, *rest):
    if name == moment:
        builtins.__import__ = known
        os.kill(os.getpid(), number)
    return known(name, *rest)

builtins.__import__ = hooked
sys.exit(__main__.main())
"""

ENDS = {
    ("serve", "--job", "job.toml", "--ca", "ca.pem", "--identity", "x", "--json"): (
        0,
        "blindsum.coordinator",
    ),
    ("join", "https://x", "--job", "job", "--ca", "x", "--identity", "x", "--train", "a:b"): (
        130,
        "blindsum.session",
    ),
    ("simulate", "--protocol", "plain", "--parties", "3", "--dim", "1"): (130, "blindsum.simulation"),
}
"""Commands, their exit status when they are stopped, and a module that they import late."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["blindsum.cli", "blindsum.errors", ""])
@pytest.mark.parametrize("words", ENDS, ids=lambda words: words[0])
def test_a_signal_in_the_first_moments_ends_a_command_in_a_line(words, moment, number, tmp_path):
    status, late = ENDS[words]
    (tmp_path / "job.toml").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "-c", SIGNALLED, moment or late, str(int(number)), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (status, 1), done.stderr
    assert ('"event": "stopped"' in done.stdout) == (status == 0)
