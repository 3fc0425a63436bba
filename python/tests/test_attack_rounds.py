"""Every protocol in a real round, read along at its servers, and what an attack makes of it."""

import numpy as np
import pytest

import blindsum as bs
from blindsum.attack import observed, reading, similarity
from blindsum.attack.inversion import invert
from blindsum.demo import digits, network

PARTIES, IMAGES = 5, 2
TRAIN, _ = digits.load(7)
POOL = TRAIN.images.astype(np.float64)
MODEL = network.initial_model(7)
RATE = network.LEARNING_RATE
PLACES = [np.random.default_rng([7, rank]).choice(len(TRAIN), IMAGES, False) for rank in range(PARTIES)]
UPDATES = [
    (-RATE * network.gradient(MODEL, TRAIN.images[one], TRAIN.labels[one])).astype(np.float32)
    for one in PLACES
]
SERVERS = {"mpc3": ["coordinator", "server-1", "server-2"]}
SIGMAS = 5.0


def spec_of(protocol, **fields):
    encoding = bs.Quantised(bits=16, clip=1.0)
    fields = {"rounds": 1, "dropout": 0.0, "encoding": encoding} | fields
    return bs.JobSpec(job="attack", protocol=protocol, parties=PARTIES, dim=network.DIM, **fields)


def attack(vector, rank, seed):
    rng = np.random.default_rng([seed, rank])
    found = invert(MODEL, vector, IMAGES, -RATE, rng)
    return similarity.likeness(found.images, PLACES[rank], POOL, rng).correlation


@pytest.fixture(scope="module")
def chance():
    """Mean and deviation of attacks on random words."""
    rng, spec = np.random.default_rng(11), spec_of("plain")
    found = [attack(reading.random_words(spec, rng), turn % PARTIES, turn) for turn in range(40)]
    return np.mean(found), np.std(found, ddof=1)


def is_better_than_chance(correlations, chance):
    mean, deviation = chance
    return (np.mean(correlations) - mean) / (deviation / len(correlations) ** 0.5) > SIGMAS


def held(spec, messages):
    """The vectors that a server has, by the ranks of their parties."""
    read = {rank: reading.read(spec, messages[name]) for rank, name in enumerate(observed.names(PARTIES))}
    return {rank: vector for rank, vector in read.items() if vector is not None}


@pytest.mark.parametrize("protocol", bs.protocols())
def test_only_plain_shows_updates_to_a_server(protocol, chance):
    spec = spec_of(protocol)
    seen = observed.observe(spec, UPDATES, MODEL)
    assert np.abs(seen.mean - np.mean(UPDATES, axis=0)).max() <= spec.max_error
    assert list(seen.messages) == SERVERS.get(protocol, ["coordinator"])
    for messages in seen.messages.values():
        assert all(messages.values())
        vectors = held(spec, messages)
        assert len(vectors) >= PARTIES // 2
        likeness = [np.corrcoef(vector, UPDATES[rank])[0, 1] for rank, vector in vectors.items()]
        correlations = [attack(vector, rank, 3) for rank, vector in vectors.items()]
        if protocol == "plain":
            for rank, vector in vectors.items():
                assert np.abs(vector - UPDATES[rank]).max() <= 2 / (2**16 - 1)
            assert np.mean(correlations) > 0.9
            assert is_better_than_chance(correlations, chance)
        else:
            assert np.abs(np.mean(likeness)) < SIGMAS / (len(likeness) * network.DIM) ** 0.5
            assert not is_better_than_chance(correlations, chance)


def test_a_server_of_mpc3_gets_no_vector_of_parties_whose_explicit_part_it_lacks():
    spec = spec_of("mpc3")
    seen = observed.observe(spec, UPDATES, MODEL)
    ranks = {server: sorted(held(spec, messages)) for server, messages in seen.messages.items()}
    assert ranks == {"coordinator": [0, 1, 3, 4], "server-1": [1, 2, 4], "server-2": [0, 2, 3]}
    # The explicit component of rank 0 is the same at both servers that get it.
    assert np.array_equal(*(held(spec, seen.messages[server])[0] for server in ("coordinator", "server-2")))


def test_a_round_without_a_sum_is_an_error():
    updates = [*UPDATES[:-1], np.full(network.DIM, np.nan, np.float32)]
    with pytest.raises(bs.BlindsumError, match="party-004 got no sum of the round"):
        observed.observe(spec_of("plain", input_deadline=2.0), updates, MODEL)
