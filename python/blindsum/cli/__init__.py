"""The ``blindsum`` command: one module per subcommand, each with ``add`` and ``run``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from blindsum.early import StoppedEarly

EXIT_SUM = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_ABORT = 3
EXIT_PART = 3
EXIT_INTERRUPTED = 130

SUBCOMMANDS = {
    "demo": "train on real data: parties, coordinator, TLS, one party killed on the way",
    "attack": "look for training images in updates, in what servers get, and in sums",
    "simulate": "run rounds of a protocol in this process, and print their costs",
    "train": "train a model of yours with many parties on this machine, and write a report",
    "compare": "simulate protocols side by side over a grid, into a table and pictures",
    "experiments": "run the grids of papers' experiments, or grids of your own",
    "data": "deal the examples of a data set to parties, into files and a picture",
    "spec": "check a job file, and print the complete job",
    "serve": "run a coordinator for one job",
    "join": "take part in a job with your training function",
    "status": "print the state of the jobs in a coordinator's store",
    "admin": "show the jobs of a running coordinator, and give it orders",
    "watch": "watch the jobs of a running coordinator in a terminal",
    "report": "write the report of a training run: a page, a table, JSON lines",
    "model": "write a job's model out of a coordinator's store",
    "faults": "list faults with their culprits, and write the evidence",
    "backup": "copy a coordinator's store, also while it is used",
    "ledger": "show what a party's data has cost in jobs with noise",
    "audit": "verify and show the audit trail of a coordinator",
    "pki": "make, show, renew and revoke certificates",
    "bench": "measure rounds and kernels against the targets (in a clone)",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and name the command with its subcommand.

    An option has one name: a shorter one would change its meaning once another option begins so.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False} | options)
        self._is_intermixing = False

    def parse_known_args(
        self, args: Iterable[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse, and refuse words that are left over here, where the subcommand is known.

        Names may stand before options, behind them and between them.
        """
        words = list(sys.argv[1:] if args is None else args)
        if self._is_intermixing:
            return super().parse_known_args(words, namespace)
        if self._takes_names() and "--" not in words:
            self._is_intermixing = True
            try:
                found, rest = self.parse_known_intermixed_args(words, namespace)
            finally:
                self._is_intermixing = False
        else:
            found, rest = super().parse_known_args(words, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        for word in words[: words.index("--")] if "--" in words else words:
            # Python 3.11 makes an empty list of it, which no command expects.
            if word.startswith("--") and word.endswith("=--"):
                self.error(f"argument {word.removesuffix('=--')}: '--' must not be its value")
        return found, rest

    def _takes_names(self) -> bool:
        """Whether an argument takes any number of words: argparse gives it the first ones alone."""
        return any(not action.option_strings and action.nargs in ("?", "*", "+") for action in self._actions)

    def print_help(self, file: Any = None) -> None:
        """Print the help, and fail where it cannot be written: argparse would end as if it had been."""
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to look, exit status 2."""
        self.exit(EXIT_USAGE, f"blindsum: error: {message} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    from blindsum.cli.console import never_fail, note

    words = list(sys.argv[1:] if arguments is None else arguments)
    if arguments is None:
        _in_utf8(words)
    never_fail()
    try:
        return _run(words)
    except StoppedEarly:
        # Whoever installed the handler knows what it means.
        raise
    except KeyboardInterrupt:
        note("blindsum: interrupted")
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away, as with `| head`.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _in_utf8(words: Sequence[str]) -> None:
    """Begin again with UTF-8 where the locale has another encoding, and words need it.

    Names and paths are UTF-8 everywhere, as jobs and certificates are.
    """
    if sys.flags.utf8_mode or sys.getfilesystemencoding() == "utf-8" or all(word.isascii() for word in words):
        return
    os.environ["PYTHONUTF8"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _run(words: list[str]) -> int:
    from blindsum.errors import (
        BlindsumError,
        ConfigError,
        Fault,
        IdentityError,
        InputError,
        RoundAborted,
    )
    from blindsum.os_errors import in_words

    try:
        _refuse_bytes(words)
        options = _parser(words).parse_args(words)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except (ConfigError, IdentityError, InputError) as error:
        return _complain(error, EXIT_USAGE)
    except (Fault, RoundAborted) as error:
        return _complain(error, EXIT_ABORT)
    except BrokenPipeError:
        raise
    except BlindsumError as error:
        return _complain(error, EXIT_FAILED)
    except OSError as error:
        return _complain(in_words(error), EXIT_FAILED)


def _refuse_bytes(words: Sequence[str]) -> None:
    """Refuse an argument that is no UTF-8: its bytes have no place in names, jobs and certificates."""
    from blindsum.errors import ConfigError

    for place, word in enumerate(words):
        try:
            word.encode()
        except UnicodeEncodeError as error:
            option, equals, _ = word.partition("=")
            before = words[place - 1] if place else ""
            named = option if equals and option.startswith("--") else before
            name = named if named.startswith("--") else f"argument {place + 1}"
            raise ConfigError(
                name, f"{os.fsencode(word)!r} must be UTF-8: give a name or text that is"
            ) from error


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="blindsum",
        description="Secure aggregation: the sum of vectors that nobody may see.",
        epilog="example: blindsum simulate --protocol plain --parties 10 --dim 1000",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    # Only the module of the chosen command is loaded; the others contribute their line of help.
    chosen = next((word for word in words if not word.startswith("-")), None)
    for name, text in SUBCOMMANDS.items():
        command = commands.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name == chosen:
            import_module(f"blindsum.cli.{name}").add(command)
    return parser


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from blindsum import __version__

        print(f"blindsum {__version__}", flush=True)
        parser.exit()


def _complain(error: Exception | str, status: int) -> int:
    from blindsum.cli.console import note

    text = " ".join(str(error).split()) or type(error).__name__
    note(f"blindsum: error: {text}", "ERROR")
    return status
