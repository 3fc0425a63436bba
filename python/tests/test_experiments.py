"""Every experiment runs, in its quick mode, and writes what its page names."""

import csv
import importlib
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

import blindsum as bs
from benches import provenance
from benches.he.measure import HeCost
from benches.provenance import COLUMNS, Run
from experiments import flashe_wan, fssa_secagg, mpc_peer, peer_spu, poisoning_runs, taylor_noise, wan
from experiments.flashe_lines import Line
from experiments.measure import Case, Cost
from experiments.output import Options, write_csv

WRITTEN = {
    "accuracy": ["accuracy.md", "accuracy.csv", "accuracy.svg"],
    "aciq_bounds": ["aciq-bounds.md", "aciq-bounds.csv"],
    "flashe_density": ["flashe-density.md", "flashe-density.csv"],
    "flashe_regression": ["flashe-regression.md", "flashe-regression.csv"],
    "flashe_training": [
        *("flashe-training.md", "flashe-training.csv", "flashe-training.svg"),
        "flashe-sparse.csv",
    ],
    "flashe_wan": ["flashe-wan.md", "flashe-wan.csv", "flashe-wan.svg", "flashe-he.csv"],
    "fssa": ["fssa.md", "fssa.csv", *[f"fssa-case-{number}.svg" for number in (1, 2, 3, 4)]],
    "fssa_secagg": ["fssa-secagg.md", "fssa-secagg.csv", "fssa-secagg.svg"],
    "pss_rounds": ["pss-rounds.md", "pss-rounds.csv"],
    "attacks": ["attacks.md", "attacks.csv", "attacks.svg"],
    "robust_training": ["robust-training.md", "robust-training.csv", "robust-training.svg"],
    "thesis_skew": ["thesis-skew.md", "thesis-skew.csv", "thesis-skew.svg"],
    "poisoning": ["poisoning.md", "poisoning.csv", "poisoning.svg"],
    "mpc_tables": [
        *("mpc-tables.md", "mpc-tables.csv"),
        *(f"mpc-tables-{name}.svg" for name in ("clients", "parameters", "delays")),
    ],
    "mpc_network": ["mpc-network.md", "mpc-network.csv"],
    "links": ["links.md", "links.csv", "links.svg"],
    "overhead": ["overhead.md", "overhead.csv", "overhead-steps.csv", "overhead.svg"],
    "privacy_accuracy": [
        *("privacy-accuracy.md", "privacy-accuracy.csv", "privacy-accuracy.svg"),
        "privacy-rounds.csv",
    ],
    "privacy_audit": ["privacy-audit.md", "privacy-audit.csv", "privacy-audit.svg", "privacy-variances.csv"],
    "mystiko": ["mystiko.md", "mystiko.csv", "mystiko.svg"],
    "taylor_noise": ["taylor-noise.md", "taylor-noise.csv", "taylor-noise.svg"],
    "pss_sharing": ["pss-sharing.md", "pss-sharing.csv", "pss-sharing.svg"],
}


@pytest.mark.parametrize("name", WRITTEN)
def test_quick_mode_writes_its_results(name, tmp_path):
    importlib.import_module(f"experiments.{name}").main(["--quick", "--out", str(tmp_path)])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(WRITTEN[name])
    page = (tmp_path / WRITTEN[name][0]).read_text()
    assert f"Written by `python -m experiments.{name} --quick --out {tmp_path}`." in page
    for origin in ("Code: commit ", "Begun: 20", "Machine: ", "Build of the native module: ", "Load average"):
        assert f"\n* {origin}" in page
    for picture in re.findall(r"!\[.*\]\((.*)\)", page):
        assert "<svg" in (tmp_path / picture).read_text()
    with (tmp_path / WRITTEN[name][1]).open() as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert {row["command"] for row in rows} == {f"python -m experiments.{name} --quick --out {tmp_path}"}
    assert list(rows[0])[-len(COLUMNS) :] == list(COLUMNS)
    assert all(value != "" for row in rows for value in row.values())


def test_a_run_says_of_which_code_it_is(tmp_path, monkeypatch):
    """The commit, that files differ from it, and that the module is older than what it is built from."""

    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    assert provenance.commit() == "unknown"
    (tmp_path / "Cargo.toml").write_text("")
    (tmp_path / "experiments" / "results").mkdir(parents=True)
    git("init")
    git("add", ".")
    git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "--message", "one")
    assert re.fullmatch(r"[0-9a-f]{12}", provenance.commit())
    # What an experiment writes does not change what it measures.
    (tmp_path / "experiments" / "results" / "page.md").write_text("new")
    assert re.fullmatch(r"[0-9a-f]{12}", provenance.commit())
    (tmp_path / "Cargo.toml").write_text("[workspace]")
    assert re.fullmatch(r"[0-9a-f]{12} \+ changes", provenance.commit())
    assert provenance.build().endswith(", older than its sources")
    os.utime(tmp_path / "Cargo.toml", (0, 0))
    assert not provenance.build().endswith("sources")


def test_rows_of_another_run_keep_its_origin(tmp_path):
    run = Run.begin(["python", "-m", "experiments.fssa", "--quick"])
    rows = [{"a": 1.23456789}, {"a": 2, **dict.fromkeys(COLUMNS, "there")}]
    write_csv(Options(quick=True, out=tmp_path, run=run), "a.csv", rows)
    with (tmp_path / "a.csv").open() as file:
        here, there = csv.DictReader(file)
    assert here["a"] == "1.2346"
    assert here["command"] == "python -m experiments.fssa --quick"
    assert here["commit"] == provenance.commit()
    assert [there[name] for name in COLUMNS] == ["there"] * len(COLUMNS)


def test_costs_that_were_not_measured_now_are_marked(tmp_path):
    """The results that are checked in say when and where each cost was measured, and pages repeat it."""
    options = Options(
        quick=True, out=tmp_path, run=Run.begin(["python", "-m", "experiments.flashe_wan", "--quick"])
    )
    others = flashe_wan.he_costs(options)
    assert all(known.is_kept for known in others)
    assert all(known.origin["date"].startswith("20") for known in others)
    assert all(known.origin["machine"] in flashe_wan.kept(others) for known in others)
    line = Line(wan.MODELS[0], others[0].cost.scheme, wan.Round(0, 0, 0, 1, 1), 1.0, others[0])
    assert line.title.endswith(" †")
    cells = flashe_wan.row(line, options)
    assert (cells["costs_date"], cells["costs_machine"]) == (
        others[0].origin["date"],
        others[0].origin["machine"],
    )


def poisoned(protocol, attack):
    """A round of random updates: what is sent, who lies, and the result."""
    case = poisoning_runs.Case(protocol, attack, max_norm=1.0)
    rng = np.random.default_rng(7)
    bad = np.arange(poisoning_runs.PARTIES) < poisoning_runs.LIARS
    sent = poisoning_runs.vectors(case, rng.normal(0, 0.05, (len(bad), poisoning_runs.network.DIM)), bad)
    return sent, bad, poisoning_runs.aggregate(case, sent, bad, seed=3, number=0)


@pytest.mark.parametrize("attack", ["none", "inside", "digit"])
def test_inside_the_bound_all_protocols_have_the_same_sum(attack):
    found = {protocol: poisoned(protocol, attack) for protocol in poisoning_runs.PROTOCOLS}
    sent, _, bounded = found["pss-malicious"]
    assert (np.linalg.norm(sent, axis=1) < 1).all()
    # The encoder changes nothing: what protocols without the bound are sent is what it would send.
    assert not bounded.scaled_by_party
    for _, _, result in found.values():
        assert np.array_equal(result.mean, bounded.mean)


def test_beyond_the_bound_a_sum_moves_only_where_nothing_is_proved():
    for protocol in poisoning_runs.PROTOCOLS:
        sent, bad, result = poisoned(protocol, "beyond")
        moved = np.linalg.norm(result.mean - sent[~bad].mean(axis=0))
        if protocol == "pss-malicious":
            assert moved < poisoning_runs.ROUNDING
            assert {one.test for one in result.excluded} == {"input-bound"}
        else:
            assert moved > 2


def test_without_spu_its_experiment_says_so(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "spu", None)
    with pytest.raises(SystemExit, match="SPU is not installed in this Python, and nothing was measured"):
        peer_spu.main(["--quick", "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


PEER = """#!/bin/sh
while [ "$1" != --out ]; do shift; done
echo "* SPU 1.2.3, ABY3" > "$2/peer-spu.md"
cat > "$2/peer-spu.csv" <<END
job,clients,dim,share_s,servers_s,work_s,open_s,sent_mb,sends,upload_mb,error
sum,16,1000,0.5,0.4,0.3,0.2,0.000008,1,0.048,0.00001
mean,16,1000,0.5,0.4,0.3,0.2,0.012,2,0.048,0.00001
fltrust,16,1000,0.5,0.4,0.3,0.2,0.02,160,0.048,0.0001
END
"""


@pytest.fixture
def python(tmp_path):
    path = tmp_path / "python"
    path.write_text(PEER)
    path.chmod(0o755)
    return path


def test_a_python_with_spu_is_measured_beside_three_servers(python, tmp_path):
    peer = mpc_peer.beside(python, quick=True)
    assert [case.rule for case in peer.costs] == ["fedavg", "fltrust"]
    origin = Run.begin(["python", "-m", "experiments.mpc_tables", "--spu", "PYTHON"])
    mpc_peer.write(peer, Options(quick=True, out=tmp_path, run=origin))
    page = (tmp_path / "mpc-peer.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| sum | 1,000 |")]
    assert [row.split(" | ")[2] for row in rows] == ["SPU", "Blindsum", "SPU ÷ Blindsum"]
    assert "SPU 1.2.3" in page
    with (tmp_path / "mpc-peer.csv").open() as file:
        spu, ours, ratio = list(csv.DictReader(file))[:3]
    assert float(ratio["work_s"]) == pytest.approx(float(spu["work_s"]) / float(ours["work_s"]), rel=1e-3)


def test_without_a_python_nothing_is_measured_beside_three_servers():
    assert mpc_peer.beside(None, quick=True) is None


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexit 0\n", "", None])
def test_what_is_no_python_with_spu_is_refused(python, text):
    if text is None:
        python.unlink()
    else:
        python.write_text(text)
    with pytest.raises(SystemExit, match=r"--spu: .*/python must be a Python with SPU"):
        mpc_peer.beside(python, quick=True)


def test_the_crossover_is_read_off_the_grid():
    def cost(protocol, dim, client_ms):
        return Cost(Case(protocol, 10, dim, 0.1, 0.1), client_ms, 5.0, 100, 100)

    found = [cost("fssa", 1, 1.0), cost("secagg", 1, 2.0), cost("secagg+", 1, 2.0)]
    found += [cost("fssa", 9, 3.0), cost("secagg", 9, 2.0), cost("secagg+", 9, 4.0)]
    said = fssa_secagg.winners(fssa_secagg.grid(found))
    assert "* one party, against `secagg`: n = 10: D ≤ 1.\n" in said
    assert "* one party, against `secagg+`: everywhere on this grid.\n" in said
    assert "* server, against `secagg`: nowhere on this grid.\n" in said
    # Nine stay: 9 · 1.0 + 5.0.
    assert found[0].total_ms == 14.0


def test_the_prices_make_the_papers_dollars_of_its_hours_and_bytes():
    lines = [line for model in wan.MODELS for line in model.printed]
    assert len(lines) == 15
    for line in lines:
        # Hours are printed with two digits, at 9.17 dollars each.
        assert wan.dollars(line.hours, line.gigabytes) == pytest.approx(line.dollars, abs=0.05)


def test_the_links_are_as_the_papers_text_has_them():
    remote = [wan.mbit(region) for region in wan.REMOTE]
    assert min(remote) == 40
    assert wan.LOCAL_MBIT / (sum(remote) / len(remote)) == pytest.approx(120, rel=0.02)


def test_an_iteration_waits_for_the_slowest_client():
    aggregation = wan.Round(encrypt_s=1.0, add_s=2.0, decrypt_s=4.0, up_bytes=5e6, down_bytes=10e6)
    sydney = wan.REGIONS[-1]
    assert wan.message_s(sydney, 5e6) == pytest.approx(0.0975 + 1.0)
    assert wan.iteration_s(aggregation, 8.0) == pytest.approx(15.0 + 1.0975 + 2.0975)


def test_another_scheme_has_its_ciphertexts_in_place_of_the_words():
    plain = wan.Round(encrypt_s=0.5, add_s=0.25, decrypt_s=0.125, up_bytes=2534, down_bytes=2536)
    cost = HeCost("other", 2000, 2000, 64_000, encrypt_s=32.0, decrypt_s=16.0, add_s=8.0)
    other = flashe_wan.replaced(plain, cost, 1000)
    assert (other.up_bytes, other.down_bytes) == (32_034, 32_036)
    # Half as many numbers, on sixteen cores.
    assert (other.encrypt_s, other.add_s, other.decrypt_s) == (1.5, 0.5, 0.625)


def test_the_series_is_that_of_the_inverse():
    # √(π/2) · (z + π/12 · z³ + 7π²/480 · z⁵ + …)
    first, third, fifth = taylor_noise.coefficients(5)
    assert first == pytest.approx(math.sqrt(math.pi / 2))
    assert third / first == pytest.approx(math.pi / 12)
    assert fifth / first == pytest.approx(7 * math.pi**2 / 480)
    u = np.linspace(0.2, 0.8, 31)
    inverse = [NormalDist().inv_cdf(x) for x in u]
    assert taylor_noise.series(u, 101) == pytest.approx(inverse, abs=1e-9)


def test_tails_of_the_series_are_those_of_its_values():
    values = np.abs(taylor_noise.series(np.linspace(0, 1, 100_001), 21))
    assert values.max() == pytest.approx(taylor_noise.largest(21))
    assert values.std() < 1
    assert math.sqrt((values**2).mean()) == pytest.approx(taylor_noise.deviation(21), abs=1e-4)
    for t in (0.5, 1.0, 2.0, 2.2, 2.3, 5.0):
        assert taylor_noise.series_tail(t, 21) == pytest.approx((values > t).mean(), abs=1e-4)
    # From one sensitivity below the largest value on, half of both tails.
    edge = taylor_noise.largest(21) - 0.5
    assert taylor_noise.least_delta(21, 2) == pytest.approx((values > edge).mean() / 2, abs=1e-4)


def test_epsilon_of_the_thesis_is_below_that_of_its_noise():
    """With and without secret coins; the numbers are those of another accountant (dp-accounting)."""
    formula, with_coins = (of(2, 0.1, 10, 1e-5) for of in (taylor_noise.formula, amplified_by_epochs))
    whole = taylor_noise.composed(2, 100, 1e-5)
    assert (formula, with_coins, whole) == pytest.approx((0.766, 2.58, 33.10), abs=0.01)
    # That of jobs with noise is the same.
    noise = bs.DiscreteGaussian(noise_multiplier=2.0, delta=1e-5)
    encoding = bs.Quantised(clipping="l2", bits=14)
    spec = bs.JobSpec(protocol="secagg", parties=10, dim=10, encoding=encoding, privacy=noise)
    assert spec.privacy_after(100).epsilon == pytest.approx(whole, abs=1e-3)


def amplified_by_epochs(sigma, rate, epochs, delta):
    """By the number of releases in epochs."""
    return taylor_noise.amplified(sigma, rate, round(epochs / rate), delta)


@pytest.mark.parametrize("variance", [Fraction(1, 3), Fraction(1), Fraction(25, 4)])
def test_the_exact_sampler_draws_a_discrete_gaussian(variance):
    count = 6000
    sampler = taylor_noise.DiscreteGaussian(variance, random.Random(7).getrandbits)
    counted = Counter(sampler.draw() for _ in range(count))
    weights = {x: math.exp(-x * x / (2 * float(variance))) for x in range(-40, 41)}
    total = sum(weights.values())
    expected = {x: count * weight / total for x, weight in weights.items() if count * weight / total > 5}
    chi_square = sum((counted[x] - mean) ** 2 / mean for x, mean in expected.items())
    # Far beyond what chance gives, with k - 1 degrees of freedom.
    assert chi_square < len(expected) + 4 * math.sqrt(2 * len(expected))
    assert min(counted) == -max(counted) or abs(min(counted) + max(counted)) < 5


def test_the_true_gaussian_promises_what_is_known():
    # Balle and Wang: with noise of one sensitivity and epsilon = 0, delta is 2Φ(1/2) - 1.
    assert taylor_noise.gaussian_delta(0, 1) == pytest.approx(2 * NormalDist().cdf(0.5) - 1)
    assert taylor_noise.gaussian_tail(1.959964) == pytest.approx(0.05, abs=1e-6)
