"""Names stand before options, behind them and between them, in every command that takes several of them."""

import argparse

import pytest

from blindsum.cli import SUBCOMMANDS, _parser, main
from blindsum.pki import init, issue


def parsers(parser, words=()):
    """Every parser that has no subcommands, with the words that lead to it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield words, parser
    for action in below:
        for name, under in action.choices.items():
            yield from parsers(under, (*words, name))


def commands():
    for name in SUBCOMMANDS:
        # Each loads its own arguments alone.
        yield from (found for found in parsers(_parser([name])) if found[0][0] == name)


def words_of(action):
    """An option with a value that it accepts."""
    value = action.choices[0] if action.choices else "1"
    return [action.option_strings[0], *([] if action.nargs == 0 else [value])]


def placed(parser):
    """The same words with all names before the options, and with the last name behind them."""
    names = [action for action in parser._actions if not action.option_strings]
    several = [action for action in names if action.nargs in ("?", "*", "+")]
    options = [action for action in parser._actions if action.option_strings and action.dest != "help"]
    first = [name for action in names if action not in several for name in [(action.choices or ["1"])[0]]]
    needed = [word for action in options if action.required for word in words_of(action)]
    flag = next((action for action in options if action.nargs == 0 or not action.type), None)
    flag = [] if flag is None or flag.required else words_of(flag)
    last = ["1"] if several[0].nargs == "?" else ["1", "2"]
    yield [*first, *last, *needed, *flag]
    yield [*first, *last[:-1], *needed, *flag, last[-1]]
    yield [*needed, *flag, *first, *last]


@pytest.mark.parametrize(
    "words",
    [
        words
        for words, parser in commands()
        if any(not one.option_strings and one.nargs in ("?", "*", "+") for one in parser._actions)
    ],
    ids=" ".join,
)
def test_names_behind_options_are_the_names_before_them(words):
    parser = dict(commands())[words]
    found = [vars(parser.parse_args(rest)) for rest in placed(parser)]
    assert found[0] == found[1] == found[2]


def test_a_certificate_behind_the_reason_is_revoked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    init("ca")
    issue("ca", "hospital-a")
    assert main(["pki", "revoke", "ca", "--why", "key lost", "hospital-a"]) == 0, capsys.readouterr().err
    assert "hospital-a" in capsys.readouterr().out


@pytest.mark.parametrize("words", [("pki", "list", "ca", "--js"), ("status", "--sto", "x"), ("--ver",)])
def test_an_option_has_no_shorter_names(words, capsys):
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert left.value.code == 2
    assert "arguments" in capsys.readouterr().err
