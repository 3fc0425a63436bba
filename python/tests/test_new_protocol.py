"""The tool that begins a protocol: where everything goes, and that its code is that of `plain`."""

import re
import shutil
from pathlib import Path

import new_protocol
import pytest
from new_protocol import Names, RefusedError, checked, written

ROOT = Path(__file__).resolve().parents[2]
CHANGED = ("crates/protocol/src/lib.rs", "tools/pictures.py", "vectors/model/said.py")


@pytest.fixture
def tree(tmp_path):
    """The files that the tool reads."""
    shutil.copytree(ROOT / "crates/protocol/src", tmp_path / "crates/protocol/src")
    for name in CHANGED[1:]:
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def test_a_protocol_is_written_and_registered(tree):
    files = written(checked("masked-sum", tree), tree)
    assert {str(path.relative_to(tree)) for path in files} == {
        *(
            f"crates/protocol/src/protocols/masked_sum/{part}.rs"
            for part in ("mod", "client", "server", "tests")
        ),
        "docs/protocols/masked-sum.md",
        "python/tests/test_masked_sum.py",
        *CHANGED,
    }
    added = {
        name: set(files[tree / name].splitlines()) - set((ROOT / name).read_text().splitlines())
        for name in CHANGED
    }
    assert added == {
        CHANGED[0]: {"    pub(crate) mod masked_sum;", "    masked_sum::MaskedSum,"},
        CHANGED[1]: {'        "masked-sum": [Picture("A round", job("masked-sum"))],'},
        CHANGED[2]: {'    "masked-sum": {},'},
    }
    module = files[tree / "crates/protocol/src/protocols/masked_sum/mod.rs"]
    assert '    MaskedSum = "masked-sum";' in module
    modules = re.findall(r"    pub\(crate\) mod (\w+);", files[tree / CHANGED[0]])
    assert modules == sorted(modules)
    # The order of the choice is never changed: the new one comes last.
    assert files[tree / CHANGED[0]].index("PaillierAllReduce,\n    masked_sum") > 0
    assert not [path for path, text in files.items() if re.search(r"\$(name|type|module|\{)", text)]


def code(text):
    """The lines of code, without comments, imports, attributes and what only says who may see it."""
    text = re.sub(r"^use .*?;$", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line.strip().replace("pub(super) ", "") for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith(("//", "#[", "mod "))]


def test_its_code_is_that_of_plain():
    # So that it compiles: what changes there, e.g. a field of `ProtocolInfo`, changes here.
    plain = (ROOT / "crates/protocol/src/protocols/plain/mod.rs").read_text().split("#[cfg(test)]")[0]
    parts = [Names("plain").filled(f"{part}.rs.in") for part in ("mod", "client", "server")]
    ours = [line.replace("client::", "").replace("server::", "") for part in parts for line in code(part)]
    theirs = [re.sub(r"^(start|restore|serve),$", r"\1: \1,", line) for line in code(plain)]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize(("field", "owner"), [("ring", "paillier"), ("results", "mpc3")])
def test_a_protocol_names_only_what_it_has(field, owner):
    sources = ROOT / "crates/protocol/src"
    places = [*(sources / "protocols").rglob("*.rs"), *(sources / "toys").rglob("*.rs")]
    naming = [path for path in places if re.search(rf"^ +{field}:? ", path.read_text(), re.MULTILINE)]
    assert {path.relative_to(sources).parts[:2] for path in naming} == {("protocols", owner)}
    assert f"{field}:" not in Names("masked-sum").filled("mod.rs.in")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "must be at most 40 small letters"),
        ("Masked", "must be at most 40 small letters"),
        ("masked_sum", "must be at most 40 small letters"),
        ("masked--sum", "must be at most 40 small letters"),
        ("../x", "must be at most 40 small letters"),
        ("a" * 41, "must be at most 40 small letters"),
        ("match", "is a word of Rust: give another one, e.g. match-sum"),
        ("plain", "there is a protocol 'plain' in "),
        ("sec-agg", "there is a protocol 'sec-agg' in "),
        ("mpc3", "there is a protocol 'mpc3' in "),
        ("paillier-ring", "there is a protocol 'paillier-ring' in "),
    ],
)
def test_names_that_cannot_be_are_refused(tree, name, text):
    with pytest.raises(RefusedError) as caught:
        checked(name, tree)
    assert text in str(caught.value)


def test_nothing_is_written_over(tree):
    page = tree / "docs/protocols/masked-sum.md"
    page.parent.mkdir(parents=True)
    page.write_text("mine")
    with pytest.raises(RefusedError, match=r"masked-sum\.md: is there already"):
        written(Names("masked-sum"), tree)


@pytest.mark.parametrize("name", CHANGED)
def test_files_that_look_otherwise_are_named(tree, name):
    (tree / name).write_text("another\n")
    with pytest.raises(RefusedError, match=f"{re.escape(name)}: does not look as expected .* by hand"):
        written(Names("masked-sum"), tree)


def test_the_command_says_what_is_wrong(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["new_protocol.py", "plain"])
    assert new_protocol.main() == 2
    assert capsys.readouterr().err.startswith("new_protocol: error: NAME: there is a protocol 'plain'")
