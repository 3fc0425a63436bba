"""The code of docs/other-frameworks.md that needs no framework."""

import re
import threading
from pathlib import Path

import numpy as np

import blindsum as bs
from blindsum import pki

PAGE = Path(__file__).parents[2] / "docs" / "other-frameworks.md"
PARTIES = [f"party-{number}" for number in range(1, 5)]
ROUNDS = 2


def block(kind):
    (found,) = re.findall(rf"^```python frameworks {kind}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return found


class Federation:
    """The coordinator of the page, and parties that run its code in threads."""

    def __init__(self, folder, dim):
        self.folder, self.url = folder, None
        pki.init(folder)
        pki.issue(folder, "agg", hosts=["127.0.0.1"])
        for name in PARTIES:
            pki.issue(folder, name)
        self._started, self._dim = threading.Event(), dim

    def coordinate(self):
        """Run the program of the page with an address and paths of this test."""
        real, started = bs.Coordinator, self

        class Here(real):
            def __init__(self, spec, **given):
                assert given["listen"] == "0.0.0.0:9443"
                given |= {"identity": started.folder / "agg", "ca": started.folder, "listen": "127.0.0.1:0"}
                super().__init__(spec, **given)
                started.url = f"https://127.0.0.1:{self.address.rpartition(':')[2]}"
                started._started.set()

        names = {"dim": self._dim, "rounds": ROUNDS, "parties": PARTIES}
        code = block("coordinator").replace("bs.Coordinator(", "Here(")
        exec(code, names | {"Here": Here})

    def run(self, party):
        errors = []

        def guarded(work, *given):
            try:
                work(*given)
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=guarded, args=(self.coordinate,))]
        threads[0].start()
        assert self._started.wait(30)
        for number, name in enumerate(PARTIES, 1):
            threads.append(threading.Thread(target=guarded, args=(party, number, name)))
            threads[-1].start()
        for thread in threads:
            thread.join(100)
            assert not thread.is_alive()
        assert not errors


def mean():
    return sum(0.01 * number * number for number in range(1, 5)) / 10


def test_a_loop_has_the_mean_of_each_round(tmp_path):
    federation, models = Federation(tmp_path, 3), {}

    def party(number, name):
        code = block("loop").replace("https://agg.example:9443", federation.url)
        code = code.replace('"hospital-a"', repr(str(tmp_path / name))).replace(
            '"ca.pem"', repr(str(tmp_path))
        )
        names = {
            "rounds": ROUNDS,
            "model": np.zeros(3),
            "data": [None] * number,
            "train": lambda model, data: model + 0.01 * number,
        }
        exec(code, names)
        models[name] = names["model"]

    federation.run(party)
    assert len(models) == 4
    for model in models.values():
        assert np.allclose(model, ROUNDS * mean(), atol=1e-4)
        assert np.array_equal(model, models["party-1"])


class Net:
    """As a net of PyTorch, as far as FATE's client looks at it."""

    def __init__(self):
        self.state = {"weights": np.zeros((2, 2), np.float32), "bias": np.zeros(2, np.float32)}

    def state_dict(self):
        return dict(self.state)

    def load_state_dict(self, state):
        self.state = dict(state)


class FedAVGClient:
    """A stand-in for FATE's: trains, and calls `on_federation` after each epoch with its arguments."""

    def __init__(self, net, number):
        self.model, self.train_dataset = net, [None] * number

    def train(self):
        for _ in range(ROUNDS):
            new = {
                name: array + np.float32(0.01 * len(self.train_dataset))
                for name, array in self.model.state_dict().items()
            }
            self.model.load_state_dict(new)
            self.on_federation(None, None, None, None, model=self.model, optimizer=None, state=None)


def test_a_client_like_that_of_fate_goes_on_with_the_mean(tmp_path):
    federation, nets = Federation(tmp_path, 6), {}

    def party(number, name):
        names = {"FedAVGClient": FedAVGClient}
        exec(block("fate"), names)
        net = nets[name] = Net()
        client = names["SecureFedAVGClient"](net, number)
        client.before = net.state_dict()
        with bs.join(federation.url, job="tumour", identity=tmp_path / name, ca=tmp_path) as client.job:
            client.train()

    federation.run(party)
    for net in nets.values():
        for array in net.state.values():
            assert np.allclose(array, ROUNDS * mean(), atol=1e-4)


def test_every_code_block_of_the_page_is_run_by_a_test():
    kinds = re.findall(r"^```python ?(.*)$", PAGE.read_text(), re.M)
    assert kinds == [f"frameworks {kind}" for kind in ("coordinator", "loop", "openfl", "fate")]
    assert (Path(__file__).with_name("openfl_real.py")).exists()
