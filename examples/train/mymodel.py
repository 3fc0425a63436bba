"""A model, data and a training function for ``blindsum train run.toml``: handwritten digits, scikit-learn."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

from blindsum.learning.partitions import dirichlet
from blindsum.sklearn import ModelVector

TRAINING = 1500
IMAGES, LABELS = load_digits(return_X_y=True)
IMAGES = IMAGES / 16


class Part:
    """What a party has."""

    def __init__(self, places):
        self.images, self.labels = IMAGES[places], LABELS[places]

    def __len__(self):
        return len(self.labels)


def net():
    """The estimator, and how it is a vector."""
    classifier = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.1, random_state=0)
    return classifier, ModelVector(classifier, classes=range(10), n_features=64)


def parts(parties, seed):
    """An item for each party: every one has other shares of the digits."""
    return [Part(places) for places in dirichlet(LABELS[:TRAINING], parties, alpha=1.0, seed=seed)]


def train(classifier, part, epochs, turn):
    """Train where the model is now, and report how good it was before."""
    accuracy = classifier.score(part.images, part.labels)
    rng = np.random.default_rng(turn.seed)
    for _ in range(epochs):
        order = rng.permutation(len(part))
        classifier.partial_fit(part.images[order], part.labels[order])
    return {"accuracy": accuracy}


def test(classifier):
    """How good the model is on images that no party has."""
    return {"accuracy": classifier.score(IMAGES[TRAINING:], LABELS[TRAINING:])}
