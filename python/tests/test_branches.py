"""What tools/branches.py takes for a use of the text of an error, and what not. `make cases` asks it."""

import pytest
from branches import problems


@pytest.fixture
def found(tmp_path):
    """The lines of a handler with this body that depend on the text of its error."""

    def found(*body, allowed=(), head="def f():", handler="except OSError as error:"):
        lines = [head, "    try:", "        g()", f"    {handler}", *(f"        {line}" for line in body)]
        (tmp_path / "a.py").write_text("\n".join(lines) + "\n")
        return problems(tmp_path, dict.fromkeys(allowed, "a reason"))

    return found


@pytest.mark.parametrize(
    "line",
    [
        "x = str(error).removeprefix('model: ')",
        "x = error.rule.replace('give none', 'leave it out')",
        "x, _, y = error.reason.partition(': ')",
        "x = re.match('[a-z]+', error.rule)",
        "x = NAMED.sub('', str(error))",
        "if 'min_honest' in str(error): g()",
        "if error.rule == 'must be given': g()",
        "if str(error).strip().startswith('a'): g()",
    ],
)
def test_a_use_of_the_text_is_found(found, line):
    assert found(line) == ["a.py:5: f"]


def test_a_text_that_has_a_name_is_found(found):
    assert found("text = str(error)", "return text.partition(': ')[2]") == ["a.py:6: f"]


def test_an_error_that_is_a_parameter_is_found(found):
    assert found(
        "return error.rule.endswith('x')", head="def f(error: InputError):", handler="except OSError:"
    )


@pytest.mark.parametrize(
    "line",
    [
        "raise ValueError(f'{error}; give another') from error",
        "note(' '.join(str(error).split()))",
        "if error.field.partition('[')[0] == 'metrics': g()",
        "x = name.removeprefix('policy.')",
        "raise InputError('model', error.rule) from error",
    ],
)
def test_printing_and_attributes_are_not(found, line):
    assert found(line) == []


def test_an_exception_is_needed(found):
    line = "return str(error).partition(': ')[0]"
    assert found(line, allowed=["a.f"]) == []
    assert found("return None", allowed=["a.f"]) == ["a.f is allowed, and need not be"]
