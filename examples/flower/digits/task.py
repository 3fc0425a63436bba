"""The model, a softmax regression, and its data: 1,797 images of 8 x 8, dealt to the nodes."""

import numpy as np

CLASSES = 10
TEST = 297


def initial():
    """The model that training begins with."""
    return {"weight": np.zeros((64, CLASSES), np.float32), "bias": np.zeros(CLASSES, np.float32)}


def load_images():
    """All images and their labels."""
    # Not above: in a deployment each message starts a process, and over Flower's messages few of them train.
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def load_part(part, parts):
    """The images and labels of one node."""
    images, labels = load_images()
    images = (images[:-TEST] / 16).astype(np.float32)
    return images[part::parts], labels[:-TEST][part::parts]


def load_test():
    """The images and labels that no node has."""
    images, labels = load_images()
    return (images[-TEST:] / 16).astype(np.float32), labels[-TEST:]


def train(model, images, labels, rate, epochs=5):
    """Train in place by gradient descent, and give the loss."""
    wanted = np.eye(CLASSES, dtype=np.float32)[labels]
    loss = 0.0
    for _ in range(epochs):
        guess = probabilities(model, images)
        loss = float(-np.log(guess[np.arange(len(labels)), labels] + 1e-9).mean())
        error = (guess - wanted) / len(labels)
        model["weight"] -= rate * images.T @ error
        model["bias"] -= rate * error.sum(axis=0)
    return loss


def accuracy(model, images, labels):
    """The part of the images that the model reads right."""
    return float((probabilities(model, images).argmax(axis=1) == labels).mean())


def probabilities(model, images):
    """For each image the probability of each digit."""
    scores = images @ model["weight"] + model["bias"]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
