"""What tools/mutants.py takes for the text behind a guard, and what not."""

import mutants
import pytest

CODE = """fn begin(&mut self) {
    // guard: another, one-beginning
    if self.begun
        .is_some() && other { return; }
    self.begun = Some(1);
}
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A repository of one crate with this code."""
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    mutants.guards.cache_clear()

    def tree(text, file="crates/a/src/lib.rs"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    yield tree
    mutants.guards.cache_clear()


def mutant(old="self.begun.is_some()", new="false"):
    return mutants.Mutant("one-beginning", (1,), "It begins once", old, new, "-p a")


def test_a_mutant_finds_its_guard_wherever_the_code_is(tree):
    path = tree(CODE)
    file = tree("fn other() {}\n", "crates/a/src/deep/other.rs")
    assert mutant().fault() is None
    assert mutant().place() == ("begin", "if self.begun")
    with mutants.applied(mutant()):
        assert path.read_text() == CODE.replace("self.begun\n        .is_some()", "false")
    assert path.read_text() == CODE
    path.unlink()
    file.write_text("mod deeper {\n" + CODE.replace("    ", "        ") + "}\n")
    mutants.guards.cache_clear()
    assert mutant().fault() is None
    assert mutant().file == "crates/a/src/deep/other.rs"


def test_guards_within_a_text_do_not_count(tree):
    tree(CODE.replace("        .is_some()", "        // guard: deeper\n        .is_some()"))
    assert mutant().fault() is None


@pytest.mark.parametrize(
    ("code", "old", "fault"),
    [
        (CODE.replace("one-beginning", "one-begin"), "self.begun", "the code has 0 guards of this name"),
        (CODE + CODE, "self.begun", "the code has 2 guards of this name"),
        (CODE, "begu", "its text is not within 12 lines"),
        (CODE, "fn begin", "its text is not within 12 lines"),
        (CODE + "\n" * 12 + "far();\n", "far();", "its text is not within 12 lines"),
    ],
    ids=["none", "two", "half a word", "before it", "too far"],
)
def test_a_mutant_that_does_not_fit_says_why(tree, code, old, fault):
    tree(code)
    assert fault in mutant(old).fault()


def test_a_guard_that_no_mutant_takes_out_is_said(tree, monkeypatch):
    tree(CODE)
    monkeypatch.setattr(mutants, "all_tests", list)
    said = mutants.check([mutant()], {1: set()})
    assert "guard another in crates/a/src/lib.rs: no mutant has this name" in said
