"""A coordinator that is killed amid a round goes on with the model and the state of Adam, bit for bit."""

import json
import signal
import socket
import threading

import numpy as np
from sklearn.linear_model import SGDRegressor

import blindsum as bs
from blindsum.coordinator import stored_model
from blindsum.sklearn import ModelVector

NAMES = ("a", "b", "c")
ROUNDS = 5
KILLED = 3
"""The round in which the coordinator ends, while the parties train."""

ADAM = bs.FedAdam(learning_rate=0.1, beta1=0.5, beta2=0.75, tau=0.01)


def adam(start, means):
    """The models after these means, as docs/learning.md says: doubles, rounded once to singles."""
    x, m = start.astype(np.float32), np.zeros(len(start), np.float32)
    v = np.full(len(start), np.float32(ADAM.tau**2))
    for mean in means:
        wide = mean.astype(np.float64)
        m = (ADAM.beta1 * m.astype(np.float64) + (1 - ADAM.beta1) * wide).astype(np.float32)
        v = (ADAM.beta2 * v.astype(np.float64) + (1 - ADAM.beta2) * (wide * wide)).astype(np.float32)
        step = ADAM.learning_rate * m.astype(np.float64) / (np.sqrt(v.astype(np.float64)) + ADAM.tau)
        x = (x.astype(np.float64) + step).astype(np.float32)
        yield x


class Party:
    """Trains an estimator, and remembers every mean and model. In one round it waits before it trains."""

    def __init__(self, place, url, name, at_the_gate, gate):
        self.means, self.models, self.first = {}, {}, None
        self._place, self._url, self._name = place, url, name
        self._at_the_gate, self._gate = at_the_gate, gate
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait(self):
        self._thread.join(300)
        assert not self._thread.is_alive()

    def _run(self):
        net = SGDRegressor(eta0=0.05, learning_rate="constant", random_state=0)
        vector = ModelVector(net, n_features=3)
        data = np.random.default_rng(ord(self._name)).normal(size=(40, 3))
        with bs.join(
            self._url,
            job="job",
            identity=self._place.identity(self._name),
            ca=self._place.folder / "ca.pem",
            layout=vector,
        ) as job:
            for rnd in job.rounds(on_lost=lambda _: None):
                self.first = rnd.model if self.first is None else self.first
                vector.load(rnd.model)
                if rnd.number == KILLED:
                    self._at_the_gate.release()
                    assert self._gate.wait(120)
                net.partial_fit(data, data @ [1.0, -1.0, 0.5])
                rnd.submit(vector.change())
                if rnd.result() is not None:
                    outcome = rnd.outcome()
                    self.means[outcome.model_version] = outcome.mean
                    self.models[outcome.model_version] = outcome.model


def test_a_coordinator_that_is_killed_amid_a_round_goes_on_with_adam(place, processes, tmp_path):
    layout = ModelVector(SGDRegressor(), n_features=3)
    deadlines = {"stage_deadline": 60.0, "input_deadline": 120.0}
    sizes = {"parties": 3, "rounds": ROUNDS, "dim": layout.dim, "layout": layout.layout}
    spec = place.spec(protocol="secagg", **sizes, **deadlines)
    (tmp_path / "job.json").write_text(spec.replace(step=ADAM).to_json(said=True))
    store = tmp_path / "job.sqlite"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def serve():
        words = ("--job", tmp_path / "job.json", "--store", store, "--limit", "reconnect_grace=1", "--json")
        keys = ("--cert", place.folder / "agg.pem", "--key", place.folder / "agg.key")
        process = processes(
            "serve", "--listen", f"127.0.0.1:{port}", "--ca", place.folder / "ca.pem", *keys, *words
        )
        assert json.loads(process.stdout.readline())["address"]
        return process

    coordinator = serve()
    at_the_gate, gate = threading.Semaphore(0), threading.Event()
    parties = [Party(place, f"https://localhost:{port}", name, at_the_gate, gate) for name in NAMES]
    for _ in NAMES:
        assert at_the_gate.acquire(timeout=120)
    coordinator.send_signal(signal.SIGKILL)
    coordinator.communicate()
    before = stored_model(store, "job", KILLED - 1).tobytes()
    coordinator = serve()
    gate.set()
    for party in parties:
        party.wait()
    out, err = coordinator.communicate(timeout=120)
    assert coordinator.returncode == 0, (out, err)
    one = parties[0]
    versions = sorted(one.models)
    assert one.models[KILLED - 1].tobytes() == before
    # The round that was lost is not among them, and nothing else is missing.
    assert versions == list(range(1, versions[-1] + 1))
    assert versions[-1] >= KILLED
    for other in parties[1:]:
        assert {v: model.tobytes() for v, model in other.models.items()} == {
            v: model.tobytes() for v, model in one.models.items()
        }
    wanted = adam(one.first, [one.means[version] for version in versions])
    for version, model in zip(versions, wanted, strict=True):
        assert one.models[version].tobytes() == model.tobytes()
    assert stored_model(store, "job", versions[-1]).tobytes() == one.models[versions[-1]].tobytes()
