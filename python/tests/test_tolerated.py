"""The number of parties that a job says a round may lose is the number that a round can lose."""

import pytest

import blindsum as bs

CASES = [
    *(
        (protocol, 4, 3)
        for protocol in ("secagg", "secagg+", "fssa", "pss", "mpc3", "flashe", "paillier-ring")
    ),
    *((protocol, 7, 3) for protocol in ("secagg", "fssa", "pss", "plain", "paillier-broadcast")),
    *((protocol, 10, 3) for protocol in ("secagg+", "fssa")),
    ("pss-malicious", 5, 3),
    ("pss-malicious", 8, 0),
]


def has_sum(spec, stage, lost):
    return bs.simulate(spec, drop_at={stage: lost}).outcome == "sum"


@pytest.mark.parametrize(("protocol", "parties", "least"), CASES)
def test_so_many_parties_may_be_lost_and_no_more(protocol, parties, least):
    spec = bs.JobSpec(protocol=protocol, parties=parties, min_parties=least, dim=8)
    stages = spec.stages[: spec.stages.index(spec.input_stage) + 1]
    for stage in stages:
        assert has_sum(spec, stage, spec.tolerated)
    assert not has_sum(spec, spec.input_stage, spec.tolerated + 1)


def test_answers_and_signatures_of_proofs_are_needed_too():
    wide = {"parties": 20, "min_parties": 3, "dim": 8, "corrupt": 0.05, "dropout": 0.3}
    for spec in (
        bs.JobSpec(protocol=bs.PssMalicious(packing=2), **wide),
        bs.JobSpec(protocol=bs.PssMalicious(packing=1), parties=10, min_parties=3, dim=8, corrupt=0.0),
    ):
        stage = spec.stages[0]
        assert has_sum(spec, stage, spec.tolerated)
        assert not has_sum(spec, stage, spec.tolerated + 1)


def test_who_is_lost_does_not_matter_where_parties_have_few_neighbours():
    neighbours, threshold = 16, 13
    spec = bs.JobSpec(
        protocol=bs.SecAggPlus(neighbours=neighbours, threshold=threshold), parties=40, dim=8, corrupt=0.05
    )
    assert spec.tolerated == neighbours + 1 - threshold
    for seed in range(20):
        assert bs.simulate(spec, drop_at={spec.input_stage: spec.tolerated}, seed=seed).outcome == "sum"
