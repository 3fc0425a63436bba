"""``blindsum experiments``: the grids are those of the checkout's experiments, and may be replaced."""

import pytest

import blindsum as bs
from blindsum.cli import main
from blindsum.comparison.columns import read_csv
from blindsum.comparison.experiments import EXPERIMENTS
from blindsum.comparison.grid import Grid
from experiments import (
    accuracy_runs,
    flashe_training_runs,
    fssa,
    fssa_secagg,
    links,
    mpc_plan,
    mystiko_rounds,
    overhead_runs,
    pss_rounds,
    robust_training_runs,
    thesis_skew_runs,
    three_servers,
)


def jobs(name):
    """Every job of an experiment's grid, with the fraction that drops out."""
    grid = Grid.of(**EXPERIMENTS[name].grid)
    return {(bs.JobSpec.from_settings(grid.job_settings(cell)).hash, cell.drop) for cell in grid.cells()}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_job_of_a_grid_is_possible_but_for_too_few_parties(name):
    grid = Grid.of(**EXPERIMENTS[name].grid)
    refused = set()
    for cell in grid.cells():
        try:
            bs.JobSpec.from_settings(grid.job_settings(cell))
        except bs.SpecError as error:
            refused.add((cell.parties, error.field))
    assert refused <= {(2, "parties")}


@pytest.mark.parametrize(("name", "number"), [("fssa-parties", 1), ("fssa-parties", 3), ("fssa-dim", 2)])
def test_grids_of_fssa_are_points_of_its_cases(name, number):
    cases = fssa.SWEEPS[number - 1].cases(quick=False)
    at = {"corrupt": fssa.FIXED_CORRUPT, "dropout": fssa.FIXED_DROPOUT, "suite": fssa.PAPERS_SUITE}
    own = [case for case in cases if all(getattr(case, field) == value for field, value in at.items())]
    assert jobs(name) == {(case.spec.hash, case.dropout) for case in own}


def test_the_grid_of_fssa_beside_secagg_is_that_of_its_page():
    cases = [case for case in fssa_secagg.cases(quick=False) if case.dim < fssa_secagg.LARGE_DIM]
    assert jobs("fssa-secagg") == {(case.spec.hash, case.dropout) for case in cases}


def test_the_grid_of_pss_is_that_of_the_table():
    grid = EXPERIMENTS["pss-rounds"].grid
    assert {(n, dim) for n in grid["parties"] for dim in grid["dim"]} == {
        (printed.parties, printed.inputs) for printed in pss_rounds.THESIS
    }
    job, theirs = (
        bs.JobSpec(protocol="pss", parties=40, dim=200, **grid["settings"]),
        pss_rounds.spec(40, 200),
    )
    assert (job.chosen, job.packed_bytes) == (theirs.chosen, theirs.packed_bytes)


def test_the_grid_of_three_servers_is_that_of_its_figures():
    cases = [
        case for case in mpc_plan.clients(mpc_plan.FULL) if case.adversary == three_servers.ADVERSARIES[1]
    ]
    grid = Grid.of(**EXPERIMENTS["three-servers"].grid)
    made = [bs.JobSpec.from_settings(grid.job_settings(cell)) for cell in grid.cells()]
    sums = {case.spec.hash for case in cases if case.rule == "fedavg"}
    assert sums == {spec.hash for spec in made if spec.protocol.rule == "fedavg"}
    # With as many bits as the largest number of parties leaves: the figures have as many as each leaves.
    trusted = [case for case in cases if case.rule == "fltrust"]
    assert [(case.parties, case.dim) for case in trusted] == [
        (spec.parties, spec.dim) for spec in made[len(sums) :]
    ]
    assert {spec.encoding.bits for spec in made[len(sums) :]} == {min(case.bits for case in trusted)}


def test_the_grid_of_mystiko_is_that_of_its_tables():
    sizes = mystiko_rounds.FULL
    cases = [
        mystiko_rounds.Case(protocol, parties, sizes.short)
        for protocol in mystiko_rounds.PROTOCOLS
        for parties in sizes.parties
    ]
    grid = Grid.of(**EXPERIMENTS["mystiko"].grid)
    assert grid.latency == (mystiko_rounds.LATENCY,)
    cells = [(cell.protocol.split(":")[0], cell.parties, cell.dim) for cell in grid.cells()]
    assert cells == [(case.protocol, case.parties, case.dim) for case in cases]
    for case, cell in zip(cases, grid.cells(), strict=True):
        # The module makes its jobs from active ones, which two parties cannot have.
        if case.parties > 2 or case.protocol not in ("mpc3", "secagg+"):
            assert bs.JobSpec.from_settings(grid.job_settings(cell)).hash == case.spec.hash


def test_the_grid_of_accuracy_is_one_round_of_its_trainings():
    made = {one for one, _ in jobs("accuracy")}
    tasks = accuracy_runs.FULL.tasks
    assert made == {
        accuracy_runs.Case(task, protocol, accuracy_runs.STOCHASTIC).spec.hash
        for task in tasks
        for protocol in bs.protocols()
    }


def test_the_grid_of_overhead_has_the_models_and_protocols_of_its_page():
    made = {one for one, _ in jobs("overhead")}
    longest = max(EXPERIMENTS["overhead"].grid["dim"])
    assert made == {
        overhead_runs.Case(model, protocol).spec.hash
        for model in overhead_runs.MODELS
        for protocol in overhead_runs.PROTOCOLS
        if model.dim <= longest and protocol not in overhead_runs.MOST
    }


def test_the_grid_of_robust_rules_has_the_rules_of_its_page():
    grid = Grid.of(**EXPERIMENTS["robust-rules"].grid)
    made = {bs.JobSpec.from_settings(grid.job_settings(cell)) for cell in grid.cells()}
    cases = [robust_training_runs.Case("iid", "none", rule) for rule in robust_training_runs.RULES]
    # `weighted` has weights, `clipped` a norm of its own, and `fltrust` one party more.
    same = {case.spec.hash for case in cases if case.rule not in ("weighted", "clipped", "fltrust")}
    assert same <= {spec.hash for spec in made}
    assert {spec.protocol.rule for spec in made} == {case.rule for case in cases} - {"weighted"}


def test_the_grid_of_a_sparse_round_is_an_iteration_of_its_page():
    (dim,) = EXPERIMENTS["flashe-sparse"].grid["dim"]
    assert dim == flashe_training_runs.MODELS[0].parameters == flashe_training_runs.FULL.paillier
    schemes = [getattr(flashe_training_runs, name) for name in ("PLAIN", "FLASHE", "SPARSE", "BATCHED")]
    assert {one for one, _ in jobs("flashe-sparse")} == {
        flashe_training_runs.spec_of(scheme, dim).hash for scheme in schemes
    }


def test_the_grid_of_workers_has_the_jobs_of_its_page():
    made = {one for one, _ in jobs("thesis-workers")}
    cases = thesis_skew_runs.cases(thesis_skew_runs.FULL, {})
    first = {case.task.net.dim for case in cases if case.workers != thesis_skew_runs.WORKERS}
    cases = thesis_skew_runs.cases(thesis_skew_runs.FULL, {})
    assert made == {case.spec.hash for case in cases if case.task.net.dim in first}


def test_the_grid_of_links_is_that_of_its_page():
    grid = EXPERIMENTS["links"].grid
    sizes = links.FULL
    assert (grid["protocol"], grid["parties"]) == ([*sizes.protocols], [links.PARTIES])
    assert grid["dim"] == [sizes.dim]
    waits = {0.0 if link is None else link.round_trip / 2 for link in links.LINKS.values()}
    assert set(grid["latency"]) == waits


def run(capsys, *words):
    status = main(["experiments", *words])
    return status, *capsys.readouterr()


def test_without_a_name_they_are_listed(capsys):
    status, out, _ = run(capsys)
    assert status == 0
    assert all(name in out for name in EXPERIMENTS)


def test_axes_and_options_are_replaced(capsys, tmp_path):
    words = ("--parties", "20", "--dim", "20,30", "--set", "corrupt=0.05", "--write", "markdown")
    status, _, _ = run(capsys, "fssa-secagg", *words, "--out", str(tmp_path / "new"))
    assert status == 0
    rows = read_csv((tmp_path / "new" / "runs.csv").read_text())
    assert {(row["protocol"], row["parties"], row["dim"], row["drop"]) for row in rows} == {
        (protocol, 20, dim, 0.1) for protocol in ("fssa", "secagg", "secagg+") for dim in (20, 30)
    }
    assert {row["outcome"] for row in rows} == {"sum"}
    spec = bs.JobSpec(protocol="fssa", parties=20, dim=20, adversary="semi-honest", corrupt=0.05, dropout=0.1)
    assert rows[0]["job_hash"] == spec.hash


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nothing"], "NAME: 'nothing' must be one of fssa-parties"),
        (["mystiko"], "--out: must name a folder for the table"),
        (["mystiko", "--out", "x", "--drop", "3"], "--drop: 3.0 must be a number from 0 to 1"),
    ],
)
def test_what_is_wrong_is_named(capsys, words, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith(f"blindsum: error: {text}")
    assert not list(tmp_path.iterdir())
