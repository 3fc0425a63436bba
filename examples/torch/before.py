"""A hospital's own script: handwritten digits by a network of PyTorch, on a third of the data."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

share = int(sys.argv[1])
data, labels = (torch.tensor(array) for array in load_digits(return_X_y=True))
data = data.float() / 16
mine, test = slice(share, 1500, 3), slice(1500, None)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
optimiser = torch.optim.SGD(net.parameters(), lr=0.5)


def train():
    """Five steps over the hospital's data."""
    net.train()
    for _ in range(5):
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(data[mine]), labels[mine]).backward()
        optimiser.step()


for _ in range(20):
    train()
net.eval()
print(f"accuracy {(net(data[test]).argmax(1) == labels[test]).float().mean():.3f}")
