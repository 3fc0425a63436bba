"""Runs an example of examples/torch, jax or sklearn: alone, and as a job of three hospitals."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import blindsum as bs
from blindsum import pki

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MAX_GLUE = 10
# Three processes share the machine.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def scripts(library):
    """The two scripts of an example, whose diff is short."""
    before, after = (EXAMPLES / library / f"{name}.py" for name in ("before", "after"))
    lines = difflib.ndiff(before.read_text().splitlines(), after.read_text().splitlines())
    added = [line for line in lines if line.startswith("+ ") and line[2:].strip() and '"""' not in line]
    assert 0 < len(added) <= MAX_GLUE, added
    return before, after


def check(library, vector, folder, **start):
    """The diff is short, and three parties with a third of the data each learn what one of them cannot."""
    before, after = scripts(library)
    alone = accuracy(
        subprocess.run([sys.executable, before, "0"], capture_output=True, text=True, check=True)
    )
    pki.init(folder)
    pki.issue(folder, "agg", hosts=["localhost"])
    for share in range(3):
        pki.issue(folder, f"hospital-{share}")
    spec = bs.JobSpec(
        job="digits",
        protocol="secagg",
        parties=3,
        rounds=20,
        join_deadline=60.0,
        layout=vector,
        encoding=bs.Quantised(clip=5.0, bits=24, max_weight=1000),
    )
    with bs.Coordinator(spec, identity=folder / "agg", ca=folder, **start) as coordinator:
        url = f"https://localhost:{coordinator.address.rpartition(':')[2]}"
        parties = [
            subprocess.Popen(
                [sys.executable, after, str(share), url],
                cwd=folder,
                stdout=subprocess.PIPE,
                text=True,
                env=ONE_THREAD,
            )
            for share in range(3)
        ]
        found = []
        for party in parties:
            out, _ = party.communicate(timeout=300)
            assert party.returncode == 0
            found.append(float(re.search(r"accuracy (\S+)", out)[1]))
    assert len(set(found)) == 1
    assert found[0] > max(0.85, alone - 0.02)
    return alone, found[0]


def accuracy(done):
    return float(re.search(r"accuracy (\S+)", done.stdout)[1])
