"""Flower's quickstart with PyTorch, with the two lines of its README and without: `make torch`."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from benches.flower_deployment import simulation

APP = Path(__file__).parents[2] / "examples" / "flower-torch"
SMALL = "num-server-rounds=3 images=2000"


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    with simulation(tmp_path_factory.mktemp("flower"), 4) as found:
        yield found


@pytest.fixture
def before(tmp_path):
    """The app as it was before the diff of its README."""
    copy = tmp_path / "app"
    shutil.copytree(APP, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (diff,) = re.findall(r"^```diff\n(.*?)^```$", (APP / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "two-lines.diff").write_text(diff)
    # Outside of a repository the names in the diff are those of the current folder.
    subprocess.run(["git", "apply", "-R", "../two-lines.diff"], cwd=copy, check=True)
    return copy


def accuracies(printed):
    found = [float(one) for one in re.findall(r"round \d+: accuracy (\d\.\d+)", printed)]
    assert len(found) == 4, printed[-3000:]
    return found


def test_two_lines_change_nothing_but_who_sees_updates(federation, before):
    assert not [file for file in before.rglob("*.py") if "blindsum" in file.read_text()]
    plain = accuracies(federation.flwr_run(before, SMALL))
    printed = federation.flwr_run(APP, SMALL)
    secure = accuracies(printed)
    assert "Received 1 results and 0 failures" in printed
    assert plain[-1] > plain[0] + 0.3
    # The images, the first model and the order of the images are the same; sums are rounded.
    assert secure == pytest.approx(plain, abs=0.02)
