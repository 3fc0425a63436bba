"""Commands in this process and in others, and a small job."""

import os
import subprocess
import sys

from blindsum.cli import main

JOB = 'protocol = "secagg"\nparties = 3\ndim = 10\n'


def run(*words, cwd=None, encoding="utf-8", **environment):
    """A command in a process of its own: status, output, errors."""
    done = subprocess.run(
        [sys.executable, "-m", "blindsum", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        env=os.environ | environment,
        check=False,
    )
    return done.returncode, done.stdout.decode(encoding), done.stderr.decode(encoding)


def refused(capsys, *words):
    """What a command says that refuses its arguments: one line, status 2."""
    try:
        status = main([str(word) for word in words])
    except SystemExit as error:
        status = error.code
    err = capsys.readouterr().err
    assert status == 2, err
    assert err.count("\n") == 1, err
    return err
