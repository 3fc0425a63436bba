"""The code for OpenFL of docs/other-frameworks.md with OpenFL's own classes: `make openfl`."""

import re
import threading
from pathlib import Path

import numpy as np
from openfl.federated.task.runner import TaskRunner
from openfl.interface.aggregation_functions import WeightedAverage
from openfl.utilities import LocalTensor, TensorKey

import blindsum as bs
from blindsum import pki

PAGE = Path(__file__).parents[2] / "docs" / "other-frameworks.md"
MODEL = {"weights": np.full((2, 3), 0.5, np.float32), "bias": np.zeros(3, np.float32)}
DIM = 9


def block(kind):
    (found,) = re.findall(rf"^```python frameworks {kind}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return found


class Runner(TaskRunner):
    """Adds a number to every array, and reports a loss, as OpenFL's own runners return it."""

    def __init__(self, number):
        super().__init__(None)
        self.number = number

    def get_train_data_size(self):
        return self.number

    def train_task(self, col_name, round_num, input_tensor_dict, **kwargs):
        sent = {TensorKey("loss", col_name, round_num, True, ("metric",)): np.array(float(self.number))}
        for name, array in input_tensor_dict.items():
            key = TensorKey(name, col_name, round_num, False, ("trained",))
            sent[key] = array + np.float32(0.01 * self.number)
        return sent, {}


def averaged(results):
    """What OpenFL's aggregator makes of the results: its own function, for each array."""
    found = {}
    for name in MODEL:
        tensors = [
            LocalTensor(col_name=f"c-{number}", tensor=array, weight=number / 10)
            for number, sent in results.items()
            for key, array in sent.items()
            if key.tensor_name == name
        ]
        found[name] = WeightedAverage()(tensors, None, name, 0, ("trained",))
    return found


def test_task_runners_of_openfl_send_the_mean(tmp_path):
    names = {}
    exec(block("openfl"), names)
    secure = type("SecureRunner", (names["Secure"], Runner), {})
    pki.init(tmp_path)
    pki.issue(tmp_path, "agg", hosts=["127.0.0.1"])
    for number in range(1, 5):
        pki.issue(tmp_path, f"c-{number}")
    spec = bs.JobSpec(
        job="tumour",
        protocol="secagg+",
        parties=4,
        min_parties=3,
        dim=DIM,
        rounds=0,
        model_update="none",
        encoding=bs.Quantised(bits=20, clip=1.0, max_weight=100),
    )
    model, errors = dict(MODEL), []
    with bs.Coordinator(spec, identity=tmp_path / "agg", ca=tmp_path, hosted=True) as coordinator:
        url = f"https://127.0.0.1:{coordinator.address.rpartition(':')[2]}"
        for step in range(2):
            results = {}

            def collaborate(number, step=step, results=results, model=model):
                try:
                    runner = secure(number)
                    with bs.join(url, job="tumour", identity=tmp_path / f"c-{number}", ca=tmp_path) as job:
                        runner.job = job
                        results[number], kept = runner.train_task(f"c-{number}", step, model, epochs=1)
                        assert kept == {}
                except BaseException as error:
                    errors.append(error)
                    raise

            threads = [threading.Thread(target=collaborate, args=(number,)) for number in range(1, 5)]
            for thread in threads:
                thread.start()
            coordinator.round([f"c-{number}" for number in range(1, 5)], tag=step)
            for thread in threads:
                thread.join()
            assert not errors
            plain = averaged({n: Runner(n).train_task(f"c-{n}", step, model)[0] for n in range(1, 5)})
            for sent in results.values():
                # Neither the metric nor the party's own arrays.
                assert {key.tensor_name for key in sent} == set(MODEL)
                for key, array in sent.items():
                    assert all(np.array_equal(array, other[key.tensor_name]) for other in by_name(results))
            model = averaged(results)
            for name in MODEL:
                assert np.allclose(model[name], plain[name], atol=spec.max_error)


def by_name(results):
    return [{key.tensor_name: array for key, array in sent.items()} for sent in results.values()]
