"""The example of a language model with LoRA, by its README's commands, with a real peft: `make torch`."""

import os
import re
import shutil
import socket
import subprocess
import sys

import llm_example
import numpy as np
import pytest
from safetensors.numpy import load_file

from blindsum.cli.jobs import spec_from_file
from blindsum.coordinator import stored_rounds

# Four processes share the machine, and nothing may be asked of a hub.
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


class Hospitals:
    """A folder with the example's files, where the lines of its README run."""

    def __init__(self, folder):
        for path in llm_example.FOLDER.glob("*.*"):
            shutil.copy(path, folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = str(free.getsockname()[1])
        self.folder, self.left = folder, []

    def start(self, line):
        program, *words = line.replace("9443", self._port).split()
        commands = {"python": [sys.executable], "blindsum": [sys.executable, "-m", "blindsum"]}
        process = subprocess.Popen(
            [*commands.get(program, [program]), *words],
            cwd=self.folder,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.left.append(process)
        return process

    def run(self, lines):
        """Lines one after the other; those of a job together, and then their end."""
        said, together = {}, []
        for line in [*lines, ""]:
            runs_on = line.startswith(("blindsum serve", "python after.py"))
            if not runs_on:
                said |= {before: ended(process, before) for before, process in together}
                together = []
            if line:
                together.append((line, self.start(line)))
            if line.startswith("blindsum serve"):
                # It listens.
                assert "at https://" in together[-1][1].stdout.readline()
        return said


def ended(process, line):
    out, err = process.communicate(timeout=500)
    assert process.returncode == 0, f"{line}: {err}"
    return out


@pytest.fixture
def hospitals(tmp_path):
    there = Hospitals(tmp_path)
    yield there
    for process in there.left:
        process.kill()
        process.communicate()


def losses(text, words):
    return [float(found) for found in re.findall(rf"{words} ([\d.]+)", text)]


def test_hospitals_fine_tune_a_language_model_together(hospitals):
    said = hospitals.run(llm_example.commands())
    folder = hospitals.folder
    spec = spec_from_file(str(folder / "job.toml"))
    rounds = list(stored_rounds(folder / "texts.sqlite", "texts"))
    found = [one["metrics"]["loss"] for one in rounds]
    assert len(found) == spec.rounds
    assert all(one["share"] == 1 for one in found)
    assert found[-1]["value"] < 0.97 * found[0]["value"]
    # The adapters of each hospital are the coordinator's model.
    model = np.load(folder / "adapters.npy")
    assert len(model) == spec.dim
    names = [line.split()[0].replace(".default", "") for line in spec.layout]
    for share in range(3):
        own = load_file(folder / f"adapters-{share}" / "adapter_model.safetensors")
        assert sorted(own) == sorted(names)
        assert np.concatenate([own[name].ravel() for name in names]).tobytes() == model.tobytes()
    # Together they know texts of no hospital better than one does that has learnt alone.
    together = {
        tuple(losses(said[f"python after.py {share} https://localhost:9443"], "other texts"))
        for share in range(3)
    }
    (alone,) = losses(said["python before.py 0"], "other texts")
    assert len(together) == 1
    assert together.pop()[0] < alone
