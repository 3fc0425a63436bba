"""Lines about a job that operators are shown."""

import pytest

from blindsum.cli.operators import _until, ended_lines, ended_of


@pytest.mark.parametrize(("until", "said"), [(1_000_000, "00:16:40"), (1_000_001, "00:16:41")])
def test_a_ban_ends_in_the_second_that_the_party_is_told(until, said):
    assert _until(until) == f" until 1970-01-01 {said} UTC"


def test_who_sat_a_round_out_is_told_apart_from_who_was_lost():
    stages = [
        {"dropped": {"c": "its connection was lost"}, "causes": {"c": "connection"}},
        {
            "dropped": {"d": "its program gave no update", "a": "its update was not accepted: no number"},
            "causes": {"d": "sat_out", "a": "not_accepted"},
        },
        # Of an earlier version.
        {"dropped": {"b": "it sits the round out"}},
    ]
    report = {"number": 3, "started_ms": 0, "state": "aborted", "reason": "too few", "stages": stages}
    ended = ended_of(report | {"parties": list("abcd"), "survivors": []})
    assert list(ended_lines(ended))[1:] == [
        "    lost: b: it sits the round out",
        "    lost: c: its connection was lost",
        "    sat out: a: its update was not accepted: no number",
        "    sat out: d: its program gave no update",
    ]
