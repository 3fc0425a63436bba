"""Lines about a job that operators are shown."""

import pytest

from blindsum.cli.operators import _until


@pytest.mark.parametrize(("until", "said"), [(1_000_000, "00:16:40"), (1_000_001, "00:16:41")])
def test_a_ban_ends_in_the_second_that_the_party_is_told(until, said):
    assert _until(until) == f" until 1970-01-01 {said} UTC"
