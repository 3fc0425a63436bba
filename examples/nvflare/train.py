"""A site's side: a softmax regression in NumPy on this site's part of the images. Blindsum is not in it."""

import numpy as np
import nvflare.client as flare
from sklearn.datasets import load_digits

CLASSES = 10
TEST = 297
KEY = "numpy_key"
"""NVFlare's name for a model of one array."""

EPOCHS = 20
RATE = 0.5


def load_part(part, parts):
    """The images of one site, with a one behind each for the bias, and their labels."""
    images, labels = load_digits(return_X_y=True)
    return with_bias(images[:-TEST])[part::parts], labels[:-TEST][part::parts]


def load_test():
    """The images and labels that no site has."""
    images, labels = load_digits(return_X_y=True)
    return with_bias(images[-TEST:]), labels[-TEST:]


def with_bias(images):
    """Images as numbers from 0 to 1, with a column of ones."""
    return np.hstack([images / 16, np.ones((len(images), 1))])


def train(weights, images, labels):
    """The weights after some steps of gradient descent, and the loss before the last one."""
    wanted = np.eye(CLASSES)[labels]
    loss = 0.0
    for _ in range(EPOCHS):
        guess = probabilities(weights, images)
        loss = float(-np.log(guess[np.arange(len(labels)), labels] + 1e-9).mean())
        weights = weights - RATE * images.T @ (guess - wanted) / len(labels)
    return weights, loss


def probabilities(weights, images):
    """For each image the probability of each digit."""
    scores = images @ weights
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def accuracy(weights):
    """The part of the test images that a model reads right."""
    images, labels = load_test()
    return float((probabilities(weights, images).argmax(axis=1) == labels).mean())


def main():
    """Train for each round, on the part of the images that has this site's number."""
    flare.init()
    images, labels = load_part(int(flare.get_site_name().rpartition("-")[2]) - 1, 4)
    while flare.is_running():
        model = flare.receive()
        weights, loss = train(model.params[KEY], images, labels)
        meta = {"NUM_STEPS_CURRENT_ROUND": len(labels)}
        flare.send(flare.FLModel(params={KEY: weights}, metrics={"loss": loss}, meta=meta))


if __name__ == "__main__":
    main()
