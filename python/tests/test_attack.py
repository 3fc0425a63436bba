"""Gradient inversion, the way from bytes to a vector, and the numbers that judge an attack."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import blindsum as bs
from blindsum.attack import inversion, picture, reading, results, similarity, wire
from blindsum.attack.inversion import invert
from blindsum.demo import digits, network

TRAIN, _ = digits.load(7)
POOL = TRAIN.images.astype(np.float64)
RNG = np.random.default_rng(0)


def update_of(model, places, steps=1):
    trained = np.array(model)
    for _ in range(steps):
        gradient = network.gradient(trained, TRAIN.images[places], TRAIN.labels[places])
        trained -= np.float32(network.LEARNING_RATE) * gradient
    return (trained - model).astype(np.float64)


def attacked(seed, images, steps=1):
    """The reconstruction of one plain update, and where its images are."""
    rng = np.random.default_rng(seed)
    model = network.initial_model(seed)
    places = rng.choice(len(TRAIN), images, replace=False)
    update = update_of(model, places, steps)
    return invert(model, update, images, -network.LEARNING_RATE * steps, rng), places


# Inversion.


def test_the_derivative_is_that_of_the_distance():
    rng = np.random.default_rng(1)
    layers = [layer.astype(np.float64) for layer in network.layers_of(network.initial_model(1))]
    wanted = network.layers_of(rng.normal(0, 0.01, network.DIM))
    pixels, target = rng.uniform(0, 1, (3, 64)), np.eye(10)[[1, 5, 5]]
    step = rng.normal(0, 1e-7, (3, 64))

    def at(place):
        return inversion._distance(place, layers, target, wanted, 2.0)

    expected = (at(pixels + step)[0] - at(pixels - step)[0]) / 2
    assert at(pixels)[1] @ step.ravel() == pytest.approx(expected, rel=1e-4)


def test_the_distance_is_0_at_the_true_images():
    model = network.initial_model(2)
    places = np.array([3, 4])
    layers = [layer.astype(np.float64) for layer in network.layers_of(model)]
    wanted = network.layers_of(update_of(model, places) / -network.LEARNING_RATE)
    target = np.eye(10)[TRAIN.labels[places]]
    distance, _ = inversion._distance(POOL[places], layers, target, wanted, 1.0)
    assert distance < 1e-9


@pytest.mark.parametrize("steps", [1, 5, 20])
def test_one_image_is_found_exactly_after_any_number_of_steps(steps):
    for seed in range(4):
        found, places = attacked(seed, 1, steps)
        assert np.abs(found.images - POOL[places]).max() < 1e-3
        assert steps > 1 or found.labels.tolist() == TRAIN.labels[places].tolist()


def test_several_images_and_their_labels_are_found_after_one_step():
    likes, labels = [], 0
    for seed in range(6):
        found, places = attacked(seed, 4)
        likes.append(similarity.likeness(found.images, places, POOL, RNG))
        labels += sorted(found.labels) == sorted(TRAIN.labels[places])
    assert np.mean([like.correlation for like in likes]) > 0.9
    assert sum(like.recognised for like in likes) >= 18
    assert labels >= 5


def test_random_numbers_give_no_images():
    rng = np.random.default_rng(5)
    model = network.initial_model(5)
    likes = []
    for _ in range(10):
        found = invert(model, rng.normal(0, 0.05, network.DIM), 4, -network.LEARNING_RATE, rng)
        assert found.residual > 0.5
        likes.append(similarity.likeness(found.images, rng.choice(len(TRAIN), 4, replace=False), POOL, rng))
    assert np.mean([like.correlation for like in likes]) < 0.2


def test_zeros_are_no_trouble():
    found = invert(network.initial_model(1), np.zeros(network.DIM), 1, -0.3, np.random.default_rng(1))
    assert found.images.shape == (1, 64)


# Judging.


def test_every_true_image_gets_the_reconstruction_that_fits():
    places = np.array([10, 20, 30])
    like = similarity.likeness(POOL[[30, 10, 20]], places, POOL, RNG)
    assert like.order == (1, 2, 0)
    assert like.correlation == pytest.approx(1.0)
    assert (like.recognised, like.images, like.error) == (3, 3, 0.0)
    assert similarity.psnr(like.error) == 120
    assert similarity.psnr(0.01) == pytest.approx(20)


def test_other_images_are_not_recognised():
    like = similarity.likeness(POOL[[31, 11, 21]], np.array([10, 20, 30]), POOL, RNG)
    assert like.recognised == 0
    assert like.correlation < 0.8


def test_other_images_are_found_by_chance_if_there_are_many():
    rng = np.random.default_rng(9)
    found, places = rng.uniform(0, 1, (100, 64)), rng.choice(len(POOL), 100, replace=False)
    like = similarity.likeness(found, places, POOL, rng)
    assert 2 < like.by_chance < 15
    assert abs(like.recognised - like.by_chance) < 12
    assert similarity.likeness(POOL[places], places, POOL, rng).by_chance == 0


def test_an_image_of_one_brightness_is_like_nothing():
    assert similarity.correlations(np.ones((1, 64)), POOL[:5]).tolist() == [[0.0] * 5]


# Reading.


@pytest.mark.parametrize("bits", [1, 7, 16, 19, 32, 47])
def test_words_are_unpacked(bits):
    rng = np.random.default_rng(bits)
    words = [int(word) for word in rng.integers(0, 2**bits, 13)]
    whole = sum(word << (bits * place) for place, word in enumerate(words))
    packed = whole.to_bytes((13 * bits + 7) // 8, "little")
    assert reading.unpack(packed + b"more", bits, 13).tolist() == words


def test_the_numbers_of_words_are_those_of_the_job():
    spec = bs.JobSpec(protocol="plain", parties=2, dim=3, encoding=bs.Quantised(bits=8, clip=2.0))
    found = reading.numbers(spec, np.array([0, 255, 51], np.uint64))
    np.testing.assert_allclose(found, [-2.0, 2.0, -1.2])


def test_too_few_bytes_are_no_vector():
    spec = bs.JobSpec(protocol="mpc3", parties=4, dim=100)
    assert reading.read(spec, [bytes(34 + 64)]) is None
    assert reading.read(spec, []) is None


def http2(*frames):
    """Frames of type, flags, stream and content, after the preface."""
    made = [
        len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content
        for kind, flags, stream, content in frames
    ]
    return wire.PREFACE + b"".join(made)


def test_frames_of_http2_are_put_together_by_stream():
    came = http2(
        (4, 0, 0, b"settings"),
        (0, 0, 1, b"ab"),
        (0, 0, 3, b"xy"),
        (0, wire.PADDED, 1, b"\x02cd\0\0"),
        (0, 0, 3, b"z"),
    )
    assert wire.data_of_streams(came) == [b"abcd", b"xyz"]
    assert wire.data_of_streams(came[:-1]) == [b"abcd", b"xy"]
    assert wire.data_of_streams(b"GET / HTTP/1.1\r\n") == []


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        else:
            out += varint(number << 3) + varint(value)
    return out


def call(content):
    return b"\0" + len(content).to_bytes(4, "big") + content


def test_pieces_become_messages_with_their_round():
    first = message((1, 300), (2, 1), (4, 5), (5, b"abc"))
    second = message((1, 300), (2, 1), (3, 3), (4, 5), (5, b"de"))
    frames = [message((1, b"hello")), message((4, first)), message((4, second)), message((12, b""))]
    came = http2((0, 0, 1, b"".join(map(call, frames))))
    assert list(wire.messages(came, to_coordinator=True)) == [(300, b"abcde")]
    upload = message((1, b"job"), (2, 7), (4, 3), (5, b"xyz"))
    came = http2((0, 0, 1, call(upload)))
    assert list(wire.messages(came, to_coordinator=False)) == [(7, b"xyz")]


# Settings, and the page.


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"parties": 1}, "parties: 1 must be a whole number from 2"),
        ({"images": 0}, "images: 0 must be a whole number from 1"),
        ({"trials": 5}, "trials: 5 must be a whole number from 20"),
        ({"multipliers": (0.0,)}, "multipliers: 0 must be from 0.015625 to 1024"),
        ({"multipliers": (float("nan"),)}, "multipliers: nan must be from"),
        ({"protocols": ("secag",)}, "protocol: 'secag' must be one of plain, secagg"),
    ],
)
def test_settings_that_cannot_be(settings, said):
    with pytest.raises(bs.ConfigError, match=re.escape(said)):
        results.Settings(**settings).check()


def test_plain_is_always_attacked_and_comes_first():
    assert results.Settings().attacked == bs.protocols()
    assert results.Settings(protocols=("mpc3", "secagg")).attacked == ("plain", "secagg", "mpc3")


def test_a_picture_has_every_pixel():
    image = np.random.default_rng(8).integers(0, 17, (8, 8)) / 16
    made = picture.picture([results.Seen("one", image.reshape(1, 64))])
    drawn = np.full((8, 8), -1)
    for grey, path in re.findall(r'<path fill="#([0-9a-f]+)" d="([^"]*)"', made):
        for column, row, width, height in re.findall(r"M(\d) (\d)h(\d)v(\d)", path):
            rows, columns = (
                slice(int(row), int(row) + int(height)),
                slice(int(column), int(column) + int(width)),
            )
            drawn[rows, columns] = int(grey[:2], 16)
    np.testing.assert_allclose(drawn, 238 * (1 - image), atol=0.6)


def one_image(title, count=1):
    return results.Seen(title, np.tile(np.linspace(0, 1, 64), (count, 1)))


def test_titles_are_text_and_long_rows_are_cut():
    made = picture.picture([one_image("<script>"), one_image("long", 40)])
    ElementTree.fromstring(made)
    assert "&lt;script&gt;" in made
    assert made.count("<g ") == 1 + picture.MAX_IMAGES
