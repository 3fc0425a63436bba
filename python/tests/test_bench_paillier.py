"""Rates of Paillier's scheme are compared with targets and with the best of the others."""

import json
import subprocess

import pytest

from benches import ROOT, kernels, paillier, paillier_page
from benches import command as bench
from benches.he.measure import CANDIDATES, HeCost
from benches.kernels import HeRate
from blindsum.cli import main
from blindsum.errors import BlindsumError

BATCHED = HeCost("batched", 1600, 1600, 1600 * 5, encrypt_s=0.01, decrypt_s=0.02, add_s=0.001)
SINGLE = HeCost("single", 1600, 16, 1600 * 512, encrypt_s=4.0, decrypt_s=2.0, add_s=0.0005)


def rate(work, backend="ifma", bits=2048, value=1.25e6):
    return HeRate(bits, backend, work, value, 75.0)


def test_a_rate_is_compared_with_its_target_and_the_best_of_the_others():
    rows = paillier.rows([rate("encrypt"), rate("decrypt", "portable", value=27e3)], [BATCHED, SINGLE])
    encrypt, decrypt, size = rows
    assert (encrypt.measured, encrypt.target, encrypt.ratio) == (1250.0, 1000.0, 1.25)
    assert encrypt.peer == pytest.approx(160.0)
    assert decrypt.target == 40.0
    assert decrypt.ratio < 1
    # 93 values of 22 bits in 512 bytes.
    assert (size.measured, size.peer) == (512 / 93, 5.0)
    assert size.ratio > 1


def test_nine_additions_make_a_sum_of_ten():
    assert paillier.peer_rates(BATCHED)["add 10"] == pytest.approx(9 * 1600 / 0.001)
    (add, _) = paillier.rows([rate("add 10")], [BATCHED, SINGLE])
    assert add.peer == pytest.approx(9 * 1600 / 0.0005 / 1e3)


def test_other_lengths_of_keys_have_no_target_and_no_peer():
    (row, _) = paillier.rows([rate("encrypt", bits=3072)], [BATCHED])
    assert (row.target, row.peer) == (None, None)


@pytest.fixture
def measured(monkeypatch):
    monkeypatch.setattr(kernels, "paillier", lambda _quick: [rate("encrypt"), rate("add 10", value=9e6)])
    costs = {"pypaillier-batched": BATCHED, "phe": SINGLE}
    monkeypatch.setattr(paillier, "measure", lambda name, *_: costs.get(name))


def test_the_page_says_what_is_missed_and_what_is_not_installed(measured, tmp_path, capsys):
    page = tmp_path / "page.md"
    assert main(["bench", "paillier", "--markdown", str(page)]) == 0
    shown = capsys.readouterr().out
    text = page.read_text()
    assert "Missed: add 10, 2048 bits, ifma." in text
    absent = [CANDIDATES[name].title for name in paillier.PEERS if name not in ("pypaillier-batched", "phe")]
    assert f"Not installed, and not measured: {', '.join(absent)}" in text
    assert "Not installed" in shown
    assert main(["bench", "paillier", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [peer["scheme"] for peer in found["peers"]] == ["batched", "single"]
    assert found["rows"][0]["ratio"] is not None


def test_nothing_is_missed_where_all_targets_are_met(monkeypatch):
    found = paillier.Measured([rate("encrypt")], [BATCHED], [])
    text = paillier_page.markdown(found, "a machine")
    assert "None is missed." in text
    assert "Not installed" not in text


@pytest.mark.timeout(3600)  # cargo may have to compile the whole workspace first
def test_the_bench_of_the_kernel_is_read():
    if not kernels.available():
        with pytest.raises(BlindsumError, match="needs cargo"):
            kernels.paillier(quick=True)
        return
    found = kernels.paillier(quick=True)
    assert {one.work for one in found} == set(paillier.WORKS)
    assert {one.bits for one in found} == {2048, 3072}
    assert min(one.rate for one in found) > 0


def test_the_benches_are_where_they_are_looked_for():
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (package,) = [one for one in json.loads(done.stdout)["packages"] if one["name"] == kernels.PACKAGE]
    benches = {target["name"] for target in package["targets"] if target["kind"] == ["bench"]}
    assert {"paillier", "proofs", "pss"} <= benches


def test_the_command_is_there():
    assert "bench paillier" in bench.EXAMPLES
