"""Weights: whole numbers of any type, floats among them, at every door."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import blindsum as bs
from blindsum import checks
from blindsum.cli.join import number
from blindsum.cli.training import is_zero
from blindsum.flower import records
from blindsum.nvflare import params
from blindsum.training.contribution import Contribution, contribution

SPEC = bs.JobSpec(protocol="plain", parties=3, dim=2, encoding=bs.Quantised(max_weight=1000))
WHOLE = (
    *(300, 300.0, np.float32(300), np.float64(300), np.int16(300), Fraction(300)),
    *(np.array(300), np.array(300.0), Decimal(300)),
)
WRONG = (
    *(300.5, np.float32(0.5), float("nan"), float("inf"), True, "300", [300]),
    *(
        np.ma.array(3, mask=True),
        Decimal("1E+99999999"),
    ),
    *(np.array(300.5), np.array([300]), np.True_, Decimal("300.5"), Decimal("NaN"), 2**32, -1),
)


@pytest.mark.parametrize("weight", WHOLE, ids=repr)
def test_a_whole_number_is_a_weight_whatever_its_type(weight):
    found = checks.weight("weight", weight, SPEC)
    assert (found, type(found)) == (300, int)
    flower = records.weight_of({"n": weight}, "n")
    nvflare = params.weight_of({params.STEPS: weight})
    assert [(one, type(one)) for one in (flower, nvflare)] == [(300, int)] * 2


@pytest.mark.parametrize("weight", WRONG, ids=repr)
def test_what_is_no_whole_number_is_refused_with_what_to_do(weight):
    for refuse, name in (
        (lambda: checks.weight("weight", weight, SPEC), "weight: "),
        (lambda: records.weight_of({"n": weight}, "n"), "metrics['n']: "),
        (lambda: params.weight_of({params.STEPS: weight}), f"meta[{params.STEPS!r}]: "),
    ):
        with pytest.raises(bs.InputError) as caught:
            refuse()
        text = str(caught.value)
        assert text.startswith(f"{name}{weight!r} ")
        assert "whole number" in text
        assert "number of examples" in text


def test_a_number_that_python_does_not_write_is_refused_by_its_size():
    for weight, said in (
        (10**5000, "a number of 16610 bits"),
        (Fraction(10**5000 + 1, 3), "a Fraction that Python does not write"),
        (np.array(10**5000, dtype=object), "a ndarray that Python does not write"),
    ):
        for refuse in (
            lambda: checks.weight("weight", weight, SPEC),  # noqa: B023
            lambda: records.weight_of({"n": weight}, "n"),  # noqa: B023
            lambda: params.weight_of({params.STEPS: weight}),  # noqa: B023
        ):
            with pytest.raises(bs.InputError, match=f"{said} .*whole number"):
                refuse()


@pytest.mark.parametrize("weight", [0, 0.0, np.array(0), np.array(0.0), Decimal(0), np.float32(0)], ids=repr)
def test_a_weight_of_nothing_sits_the_round_out_whatever_its_type(weight):
    assert is_zero(weight)
    assert not any(map(is_zero, (1, None, False, "0", 0.5, np.array([0]))))


def test_a_weight_may_be_a_float_in_a_session(place, partner):
    spec = place.spec(parties=3, rounds=2, max_weight=1000, model_update="none")
    with place.coordinator(spec) as coordinator:
        others = [
            partner(place, coordinator, "a", np.zeros(4), np.float32(100)),
            partner(place, coordinator, "b", np.zeros(4), 200.0),
        ]
        with place.join(coordinator, "c", weight=300.0) as job:
            with pytest.raises(bs.InputError, match=r"weight: 300\.5 must be a whole number from 1 to"):
                job.aggregate(np.ones(4), 300.5)
            # The call may be repeated.
            first = job.aggregate(np.ones(4))
            assert first.total_weight == 600
            assert np.allclose(first.mean, 0.5, atol=spec.max_error)
            assert job.aggregate(np.ones(4), 0.0) is None
            assert job.lost.reason == "this party gave no update"
        for other in others:
            other.wait()


def test_a_weight_may_be_a_float_in_a_simulation_and_in_training():
    result = bs.simulate(SPEC, [np.zeros(2), np.zeros(2), np.ones(2)], weights=[1.0, np.float64(1), 2.0])
    assert np.allclose(result.mean, 0.5, atol=SPEC.max_error)
    given = contribution(SPEC, (np.zeros(2), 300.0), 1)
    assert isinstance(given, Contribution)
    assert given.weight == 300
    assert not isinstance(contribution(SPEC, (np.zeros(2), 0.0), 1), Contribution)


def test_the_command_line_takes_what_python_takes():
    assert [number(text) for text in ("300", "300.0", "3e2")] == [300, 300.0, 300.0]
    assert isinstance(number("300"), int)
    with pytest.raises(ValueError, match="many"):
        number("many")
