"""What tools/circles.py takes for a circle, and what not. `make cases` asks it about the crates."""

import pytest
from circles import problems

TWO = {"lib.rs": "mod a;\nmod b;\n"}


@pytest.fixture
def found(tmp_path):
    """The circles of a crate of these files, each with what ties it."""

    def found(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return problems(tmp_path)

    return found


CIRCLE = [["a circle of a.rs, b.rs", "a.rs -> b.rs: B", "b.rs -> a.rs: A"]]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("use crate::b::B;\npub struct A;", "use super::a::A;\npub struct B;"),
        ("pub struct A(crate::b::B);", "pub enum B { One(super::a::A) }"),
        ("use super::{b::{self as other}};\npub struct A(other::B);", "use super::a::*;\npub struct B(A);"),
        ("pub use crate::b::B;\npub type A = u8;", "use crate::a;\npub fn B() -> a::A { 0 }"),
        (
            "pub trait A { fn of(&self) -> Box<dyn crate::b::B>; }",
            "use crate::a::A as Other;\npub trait B {}",
        ),
        (
            "macro_rules! A { () => { $crate::b::B }; }\npub(crate) use A;",
            "pub const B: u8 = 1;\nfn f() -> u8 { crate::a::A!() }",
        ),
        ("use crate::b::B;\nmake! { A = 1; }", "pub struct B(super::a::A);"),
    ],
    ids=["use", "path", "renamed and glob", "through a module", "trait", "in a macro", "made by a macro"],
)
def test_files_that_name_each_other_are_a_circle(found, a, b):
    assert found(TWO | {"a.rs": a, "b.rs": b}) == CIRCLE


@pytest.mark.parametrize(
    "b",
    [
        "pub struct B;",
        '// crate::a::A\n/* crate::a::A */\npub struct B;\nconst TEXT: &str = "crate::a::A";',
        "use crate::a::*;\nuse other::a::A as Else;\npub struct B(Else, <u8 as Other>::A);",
        "pub struct B;\n#[cfg(test)]\nuse crate::a::A;\n#[cfg(test)]\nmod tests { use crate::a::A; }",
        "pub struct B;\n#[cfg(test)]\nmod tests;",
    ],
    ids=["nothing", "comments and texts", "another crate", "tests", "files of tests"],
)
def test_one_way_is_no_circle(found, b):
    assert found(TWO | {"a.rs": "use crate::b::B;\npub struct A(B);", "b.rs": b}) == []


def test_a_name_is_of_the_file_that_defines_it(found):
    files = {
        "lib.rs": "mod low;\nmod high;\npub use high::top::*;\npub use low::Deep;\n",
        "low/mod.rs": "mod deep;\npub use deep::Deep;\n",
        "low/deep.rs": "pub struct Deep(crate::Top);\n",
        "high/mod.rs": "pub mod top;\n",
        "high/top.rs": "use crate::Deep;\npub struct Top(Box<Deep>);\n",
    }
    ties = "high -> low: Deep (top.rs, deep.rs)", "low -> high: Top (deep.rs, top.rs)"
    assert found(files) == [["a circle of high, low", *ties]]


def test_a_module_and_those_below_it_may_name_each_other(found):
    files = {
        "lib.rs": "mod a;\npub struct Top(a::deep::Deep);\n",
        "a/mod.rs": "pub mod deep;\npub struct A(deep::Deep);\nmod inner { fn b(_: super::A) {} }\n",
        "a/deep.rs": "use super::A;\npub struct Deep(Box<A>, crate::Top);\n",
    }
    assert found(files) == []


def test_a_way_round_outside_is_a_circle_though_it_passes_parent_and_child(found):
    files = {
        "lib.rs": "mod a;\nmod c;\n",
        "a/mod.rs": "pub mod deep;\npub struct A(deep::Deep);\n",
        "a/deep.rs": "use crate::c::C;\npub struct Deep(Box<C>, super::A);\n",
        "c.rs": "use crate::a::A;\npub struct C(A);\n",
    }
    ties = "a -> c.rs: C (deep.rs, c.rs)", "c.rs -> a: A (c.rs, mod.rs)"
    assert found(files) == [["a circle of a, c.rs", *ties]]


def test_longer_ways_round_are_circles_too(found):
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\nmod d;\n",
        "a.rs": "use crate::b::B;\npub struct A;\n",
        "b.rs": "use crate::c::C;\npub struct B;\n",
        "c.rs": "use crate::a::A;\nuse crate::d::D;\npub struct C;\n",
        "d.rs": "pub struct D;\n",
    }
    ties = "a.rs -> b.rs: B", "b.rs -> c.rs: C", "c.rs -> a.rs: A"
    assert found(files) == [["a circle of a.rs, b.rs, c.rs", *ties]]


def test_folders_side_by_side_go_one_way_though_their_files_do(found):
    files = {
        "lib.rs": "mod one;\nmod two;\n",
        "one/mod.rs": "pub mod a;\nmod b;\n",
        "one/a.rs": "pub struct A;\n",
        "one/b.rs": "use crate::two::C;\n",
        "two/mod.rs": "use crate::one::a::A;\npub struct C;\n",
    }
    ties = "one -> two: C (b.rs, mod.rs)", "two -> one: A (mod.rs, a.rs)"
    assert found(files) == [["a circle of one, two", *ties]]


def test_a_file_beside_a_folder_does_not_name_what_names_it(found):
    files = {
        "lib.rs": "mod error;\nmod deep;\n",
        "error.rs": "use crate::deep::rule::Broken;\npub struct Error(Broken);\n",
        "deep/mod.rs": "pub mod rule;\nuse crate::error::Error;\n",
        "deep/rule.rs": "pub struct Broken;\n",
    }
    ties = "deep -> error.rs: Error (mod.rs, error.rs)", "error.rs -> deep: Broken (error.rs, rule.rs)"
    assert found(files) == [["a circle of deep, error.rs", *ties]]


OBJECT = {"lib.rs": "mod a;\nmod b;\npub struct Object;\n"}
ROUND = {
    "a.rs": "use super::Object;\nimpl Object { fn a(&mut self) { self.b() } }\n",
    "b.rs": "use super::Object;\nimpl<T> Into<T> for Object { fn b(&self) { if true { self.a(); } } }\n",
}
TIES = "a.rs -> b.rs: Object::b", "b.rs -> a.rs: Object::a"


def test_methods_of_one_object_that_call_each_other_are_a_circle_of_their_files(found):
    assert found(OBJECT | ROUND) == [["a circle of a.rs, b.rs", *TIES]]


@pytest.mark.parametrize(
    "b",
    [
        "impl super::Object { fn b(&self) {} }",
        "impl super::Object { fn b(&self) { self.other.a(); other.a(); a() } }",
        "impl super::Object { fn b(&self) { self.a() } fn a(&self) {} }",
        "struct Object; impl Object { fn b(&self) { self.a() } }",
        "impl super::Object { fn b(&self) {}\n#[cfg(test)]\nfn only(&self) { self.a() } }",
        "impl super::Object { fn b(&self) { self.top() } }",
    ],
    ids=["nothing", "of another", "its own", "another type", "tests", "of the module above"],
)
def test_methods_that_go_one_way_are_no_circle(found, b):
    top = {"lib.rs": OBJECT["lib.rs"] + "impl Object { fn top(&self) { self.a() } }\n"}
    assert found(OBJECT | ROUND | top | {"b.rs": b}) == []


def test_a_circle_that_is_known_may_have_no_further_file(found, tmp_path):
    assert found(OBJECT | ROUND) != []
    assert problems(tmp_path, {".": "a b"}) == []
    assert problems(tmp_path, {".": "a"}) == [["a circle of a.rs, b.rs", *TIES]]
    assert problems(tmp_path, {".": "a b c"}) == [["c is in no circle: take it out of TANGLED"]]
