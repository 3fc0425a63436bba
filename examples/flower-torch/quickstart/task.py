"""The model, a small CNN, and its images: Fashion-MNIST where it is installed, else scikit-learn's digits."""

import gzip
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FASHION = Path("/usr/share/datasets/fashion-mnist")  # Debian: dataset-fashion-mnist


class Net(nn.Module):
    """Two convolutions and a linear layer, for square images of one channel and ten classes."""

    def __init__(self, side):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.classes = nn.Linear(16 * (side // 4) ** 2, 10)

    def forward(self, images):
        """Scores of the classes, shape ``(n, 10)``."""
        return self.classes(self.features(images).flatten(1))


def read(part):
    """Images and labels of a part, ``"train"`` or ``"t10k"``."""
    if FASHION.is_dir():
        with gzip.open(FASHION / f"{part}-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28) / 255
        with gzip.open(FASHION / f"{part}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
    else:
        images, labels = load_digits(return_X_y=True)
        chosen = slice(None, -297) if part == "train" else slice(-297, None)
        images, labels = images[chosen].reshape(-1, 8, 8) / 16, labels[chosen]
    return torch.tensor(images, dtype=torch.float32).unsqueeze(1), torch.tensor(labels, dtype=torch.long)


def make_net():
    """The model that training begins with."""
    torch.manual_seed(0)
    images, _ = read("t10k")
    return Net(images.shape[-1])


def load_part(part, parts, most, batch_size):
    """The images of one node, for training and for its own test."""
    images, labels = read("train")
    images, labels = images[part:most:parts], labels[part:most:parts]
    cut = len(labels) * 4 // 5
    generator = torch.Generator().manual_seed(part)
    train = DataLoader(
        TensorDataset(images[:cut], labels[:cut]), batch_size, shuffle=True, generator=generator
    )
    return train, DataLoader(TensorDataset(images[cut:], labels[cut:]), batch_size)


def load_test(most, batch_size):
    """Images that no node has."""
    images, labels = read("t10k")
    return DataLoader(TensorDataset(images[:most], labels[:most]), batch_size)


def train(net, loader, epochs, rate):
    """Train in place, and give the mean loss."""
    optimiser = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    net.train()
    for _ in range(epochs):
        for images, labels in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    return float(np.mean(losses))


def test(net, loader):
    """The mean loss, and the part of the images that the model reads right."""
    right, loss, count = 0, 0.0, 0
    net.eval()
    with torch.no_grad():
        for images, labels in loader:
            scores = net(images)
            loss += nn.functional.cross_entropy(scores, labels, reduction="sum").item()
            right += int((scores.argmax(1) == labels).sum())
            count += len(labels)
    return loss / count, right / count
