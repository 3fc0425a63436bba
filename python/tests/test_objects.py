"""What tools/objects.py takes for too large an object, and what not. `make cases` asks it of the crates."""

import pytest
from objects import problems


@pytest.fixture
def found(tmp_path):
    """What is wrong with a crate of these files."""

    def found(large=None, **files):
        for name, text in files.items():
            (tmp_path / f"{name}.rs").write_text(text)
        return problems(tmp_path, large or {})

    return found


def struct(fields):
    return (
        "pub struct Object<T> { #[some(thing: 1)] "
        + ", ".join(f"a{n}: B<c::D>" for n in range(fields))
        + " }\n"
    )


def methods(first, count, head="impl<T> Object<T> where T: Into<u8>"):
    return head + " { " + "".join(f"fn m{first + n}(a: u8) {{ f(b: 1) }} " for n in range(count)) + "}\n"


def test_fields_and_methods_of_all_files_count(found):
    small = {"lib": "mod a;\n" + struct(15) + methods(0, 20), "a": "use super::Object;\n" + methods(20, 20)}
    assert found(**small) == []
    assert found(lib="mod a;\n" + struct(16)) == [
        "Object has 16 fields and 20 methods, must have at most 15 and 40"
    ]
    more = small | {"a": "use super::Object;\n" + methods(20, 21)}
    assert found(**more) == ["Object has 15 fields and 41 methods, must have at most 15 and 40"]


@pytest.mark.parametrize(
    "more",
    [
        "#[cfg(test)]\n" + methods(40, 30),
        methods(40, 30, "impl<T> Trait for Object<T>"),
        methods(40, 30, "impl Other"),
        "pub struct Tuple(" + "u8, " * 20 + ");\npub struct Unit;\nstruct Empty {}\n",
    ],
    ids=["tests", "of a trait", "of another type", "without names"],
)
def test_what_is_for_tests_for_traits_and_for_others_does_not_count(found, more):
    assert found(lib=struct(15) + methods(0, 40) + "struct Other;\n" + more) == []


def test_what_is_known_to_be_large_only_gets_smaller(found):
    text = struct(20) + methods(0, 50)
    assert found({"Object": (20, 50)}, lib=text) == []
    assert found({"Object": (20, 49)}, lib=text) == [
        "Object has 20 fields and 50 methods, must have at most 20 and 49"
    ]
    assert found({"Object": (21, 50)}, lib=text) == [
        "Object has 20 fields and 50 methods: write (20, 50) into LARGE"
    ]
    assert found({"Object": (20, 50)}, lib=struct(3)) == ["Object is not large: take it out of LARGE"]
