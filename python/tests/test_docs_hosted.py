"""The blocks of docs/hosted.md and docs/machines.md about rounds that a program begins."""

import threading

import numpy as np
from test_docs import REPLACED_IN_PYTHON, blocks, replaced

import blindsum as bs


def test_blocks_of_hosts_run(place, tmp_path, monkeypatch):
    """The host of a job, its nodes, which come for each round and go, and a host that carries frames."""
    host, node, elsewhere, machine = blocks("python hosted")
    monkeypatch.chdir(tmp_path)
    for name in ("agg", *(f"node-{number}" for number in range(7))):
        for ending in ("pem", "key"):
            (tmp_path / f"{name}.{ending}").write_text(
                place.identity(name).with_suffix(f".{ending}").read_text()
            )
    (tmp_path / "ca.pem").write_text((place.folder / "ca.pem").read_text())
    names = {"model": np.zeros(1000), "sample": lambda step: [f"node-{number}" for number in range(7)]}
    threads = []

    def train(name, model, step):
        update = np.full(1000, 0.25, dtype=np.float32)
        own = {"update": update, "data": [None] * 250, "step": step, "model": model}
        port = names["coordinator"].address.rpartition(":")[2]
        table = REPLACED_IN_PYTHON | {"node-7": name}
        exec(compile(replaced(node.text, table, port=port), str(node), "exec"), own)

    def send(nodes, model, step):
        for name in nodes:
            threads.append(threading.Thread(target=train, args=(name, model.copy(), step)))
            threads[-1].start()

    names["send"] = send
    exec(compile(host.text.replace("0.0.0.0:9443", "127.0.0.1:0"), str(host), "exec"), names)
    for thread in threads:
        thread.join()
    assert np.allclose(names["model"], 3 * 0.25, atol=1e-3)
    place.operator("docs-host")
    for ending in ("pem", "key"):
        (tmp_path / f"flora.{ending}").write_text((place.folder / f"docs-host.{ending}").read_text())
    with bs.Coordinator(
        names["spec"], identity="agg", ca="ca.pem", listen="127.0.0.1:0", admin="127.0.0.1:0", hosted=True
    ) as names["coordinator"]:
        names |= {"nodes": names["sample"](9), "step": 9}
        send(names["nodes"], names["model"], 9)
        table = {"agg.example:9444": f"localhost:{names['coordinator'].admin.rpartition(':')[2]}"}
        exec(compile(replaced(elsewhere.text, table), str(elsewhere), "exec"), names)
        for thread in threads:
            thread.join()
    assert len(names["result"].survivors) == 7
    spec = bs.JobSpec(protocol="plain", parties=3, dim=4, rounds=0, model_update="none")
    names = {"spec": spec, "model": np.zeros(4)}
    names["carry_frames"] = lambda server: [server.report_failed(f"hospital-{letter}") for letter in "abc"]
    exec(compile(machine.text, str(machine), "exec"), names)
    assert names["server"].stage is None
