"""The nets of the papers, in torch: those of torchvision where it has them, the others in full.

:data:`NETS` says for each which papers train it, and how large they say it is. :func:`make` builds one, also
for other images and labels. Importing this module needs torch; some nets need torchvision as well.
"""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blindsum import checks
from blindsum.errors import BlindsumError, ConfigError, DataError

try:
    import torch
    from torch import nn
except ImportError as error:
    raise BlindsumError("the nets need torch; install it with `pip install 'blindsum[vision]'`") from error

SMALL = 64
"""Images with fewer pixels a side keep their size in the first layers, as is usual for CIFAR."""
VIT_SIDE = 224
"""Pixels a side that the vision transformer takes; other images are scaled."""
EMBEDDING, HIDDEN = 50, 256
"""Of the language model: coordinates of a character, and of the state of each of its two layers."""

Shape = Sequence[int]


@dataclass(frozen=True)
class Net:
    """A net as a paper has it.

    Attributes
    ----------
    build : callable
        Makes it from the shape of an example and the number of labels.
    shape : tuple of int
        Of an example: channels, height and width, or the characters of a text.
    classes : int
        How many labels there are.
    parameters : int
        How many trainable parameters it has then.
    papers : str
        Who trains it, and how large they say it is.
    """

    build: Callable[[Shape, int], Any]
    shape: tuple[int, ...]
    classes: int
    parameters: int
    papers: str


def make(
    name: str,
    *,
    shape: Shape | None = None,
    classes: int | None = None,
    weights: str | os.PathLike[str] | None = None,
) -> Any:
    """Build a net; its parameters are drawn from torch's generator.

    Parameters
    ----------
    name
        One of :data:`NETS`.
    shape
        Of an example, without the axis of the batch; default as in the paper.
    classes
        How many labels there are; default as in the paper.
    weights
        For ``vit-b16`` alone, which needs it: the file of a trained ``vit_b_16`` of torchvision, as
        ``torch.save(net.state_dict())`` writes it, or ``"random"``. All of it stays as it is but a new last
        layer.

    Returns
    -------
    torch.nn.Module
        It takes a batch of examples and gives one score for each label.

    Raises
    ------
    blindsum.ConfigError
        There is no such net, or an argument does not fit it.
    blindsum.DataError
        The file of the weights is not there, or holds no such net.
    blindsum.BlindsumError
        The net needs torchvision, which is not installed.
    """
    if name not in NETS:
        raise ConfigError("name", f"{name!r} must be one of {', '.join(NETS)}")
    net = NETS[name]
    sizes = tuple(net.shape if shape is None else shape)
    if len(sizes) != len(net.shape):
        raise ConfigError(
            "shape", f"{sizes} must have {len(net.shape)} numbers, as {net.shape} has: give these"
        )
    for size in sizes:
        checks.setting("shape", size, 1, 2**20)
    count = net.classes if classes is None else checks.setting("classes", classes, 1, 2**20)
    if name != "vit-b16":
        if weights is not None:
            raise ConfigError("weights", f"{name} is trained from the start: leave them out")
        return net.build(sizes, count)
    if weights is None:
        rule = (
            "vit-b16 trains its last layer alone, so the others must have learned something: give the file "
            "of a trained vit_b_16 of torchvision, or 'random'"
        )
        raise ConfigError("weights", rule)
    return _vit(sizes, count, weights)


def trainable(net: Any) -> int:
    """The number of parameters that training changes."""
    return sum(one.numel() for one in net.parameters() if one.requires_grad)


class Shortcut(nn.Module):
    """Two convolutions beside a way around them: the block of a residual net.

    Parameters
    ----------
    channels
        Of the input.
    width
        Channels of the output.
    stride
        Of the first convolution.
    around
        What the way around does where the sizes differ.
    """

    def __init__(self, channels: int, width: int, stride: int, around: Any) -> None:
        super().__init__()
        self.first = _normed(channels, width, 3, stride)
        self.second = _normed(width, width, 3)
        self.around = nn.Identity() if channels == width and stride == 1 else around

    def forward(self, images: Any) -> Any:
        """Give the images of the next layer."""
        return (self.second(self.first(images).relu()) + self.around(images)).relu()


class Padded(nn.Module):
    """A way around without parameters: every second pixel, and channels of zeros for those that are new."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.more = width - channels

    def forward(self, images: Any) -> Any:
        """Give the images of the next layer."""
        return nn.functional.pad(images[:, :, ::2, ::2], (0, 0, 0, 0, 0, self.more))


class Tree(nn.Module):
    """Two blocks or trees in a row whose results are joined at a root: the part of deep layer aggregation.

    Parameters
    ----------
    channels
        Of the input.
    width
        Channels of the output.
    levels
        1 for two blocks, more for two trees of one level less.
    stride
        Of the first convolution.
    """

    def __init__(self, channels: int, width: int, levels: int, stride: int) -> None:
        super().__init__()
        self.left = _branch(channels, width, levels, stride)
        self.right = _branch(width, width, levels, 1)
        self.root = _normed(2 * width, width, 1)

    def forward(self, images: Any) -> Any:
        """Give the images of the next layer."""
        left = self.left(images)
        return self.root(torch.cat([left, self.right(left)], dim=1)).relu()


class NextCharacter(nn.Module):
    """A language model: characters as vectors, two layers of gated recurrent units, scores of the next one.

    Parameters
    ----------
    characters
        How many there are.
    """

    def __init__(self, characters: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, EMBEDDING)
        self.units = nn.GRU(EMBEDDING, HIDDEN, num_layers=2, batch_first=True)
        self.scores = nn.Linear(HIDDEN, characters)

    def forward(self, texts: Any) -> Any:
        """Give the scores of the character behind each text, from its characters' numbers."""
        states, _ = self.units(self.embedding(texts))
        return self.scores(states[:, -1])


def _normed(channels: int, width: int, kernel: int, stride: int = 1) -> Any:
    """A convolution that keeps the size at stride 1, and normalisation over the batch."""
    convolution = nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


def _branch(channels: int, width: int, levels: int, stride: int) -> Any:
    if levels > 1:
        return Tree(channels, width, levels - 1, stride)
    return Shortcut(channels, width, stride, _normed(channels, width, 1, stride))


def _logistic(shape: Shape, classes: int) -> Any:
    return nn.Sequential(nn.Flatten(), nn.Linear(_size(shape), classes))


def _cnn5(hidden: int) -> Callable[[Shape, int], Any]:
    """Two convolutions, pooling, and two full layers, the first with so many units."""

    def build(shape: Shape, classes: int) -> Any:
        channels, height, width = _image(shape, 6)
        return nn.Sequential(
            nn.Conv2d(channels, 32, 3),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), hidden),
            nn.ReLU(),
            nn.Linear(hidden, classes),
        )

    return build


def _lenet5(shape: Shape, classes: int) -> Any:
    channels, height, width = _image(shape, 12)
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2), 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, classes),
    )


def _resnet20(shape: Shape, classes: int) -> Any:
    channels, _, _ = _image(shape, 4)
    layers = [_normed(channels, 16, 3), nn.ReLU()]
    before = 16
    for width in (16, 32, 64):
        for block in range(3):
            stride = 2 if width > before and block == 0 else 1
            layers.append(Shortcut(before, width, stride, Padded(before, width)))
            before = width
    return nn.Sequential(*layers, *_head(64, classes))


def _simple_dla(shape: Shape, classes: int) -> Any:
    channels, _, _ = _image(shape, 8)
    layers: list[Any] = []
    for width in (16, 16, 32):
        layers += [_normed(channels, width, 3), nn.ReLU()]
        channels = width
    for width, levels, stride in ((64, 1, 1), (128, 2, 2), (256, 2, 2), (512, 1, 2)):
        layers.append(Tree(channels, width, levels, stride))
        channels = width
    return nn.Sequential(*layers, *_head(512, classes))


def _gru(shape: Shape, classes: int) -> Any:
    return NextCharacter(classes)


def _resnet(depth: int) -> Callable[[Shape, int], Any]:
    def build(shape: Shape, classes: int) -> Any:
        channels, height, _ = _image(shape, 8)
        net = getattr(_models(), f"resnet{depth}")(num_classes=classes)
        net.conv1 = _stem(channels, 64, height)
        if height < SMALL:
            net.maxpool = nn.Identity()
        return net

    return build


def _densenet121(shape: Shape, classes: int) -> Any:
    channels, height, _ = _image(shape, 8)
    net = _models().densenet121(num_classes=classes)
    net.features.conv0 = _stem(channels, 64, height)
    if height < SMALL:
        net.features.norm0 = net.features.relu0 = net.features.pool0 = nn.Identity()
    return net


def _vgg(letter: str) -> Callable[[Shape, int], Any]:
    """A row of convolutions.

    For large images it is as published. For small ones it is normalised, and has one full layer.
    """

    def build(shape: Shape, classes: int) -> Any:
        channels, height, _ = _image(shape, 32)
        vgg = _models().vgg
        layers = vgg.make_layers(vgg.cfgs[letter], batch_norm=height < SMALL)
        if channels != 3:
            layers[0] = nn.Conv2d(channels, 64, 3, padding=1)
        return nn.Sequential(layers, *_head(512, classes)) if height < SMALL else vgg.VGG(layers, classes)

    return build


def _vit(shape: Shape, classes: int, weights: str | os.PathLike[str]) -> Any:
    channels, height, width = _image(shape, 1)
    if channels != 3:
        raise ConfigError(
            "shape", f"vit-b16 takes images with 3 channels, not {channels}: repeat the channel"
        )
    net = _models().vit_b_16()
    if weights != "random":
        path = checks.path("weights", weights)
        try:
            net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except _UNREADABLE as error:
            text = " ".join(str(error).split())[:200]
            raise DataError(path, f"it holds no weights of torchvision's vit_b_16: {text}") from error
    net.requires_grad_(False)
    net.heads = nn.Sequential(nn.Linear(768, classes))
    if (height, width) == (VIT_SIDE, VIT_SIDE):
        return net
    return nn.Sequential(nn.Upsample(size=(VIT_SIDE, VIT_SIDE), mode="bilinear"), net)


_UNREADABLE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
    struct.error,
)
"""What torch raises over a file that is damaged, or holds something else."""


def _stem(channels: int, width: int, height: int) -> Any:
    """The first convolution: it keeps the size of small images, and halves that of others."""
    if height < SMALL:
        return nn.Conv2d(channels, width, 3, padding=1, bias=False)
    return nn.Conv2d(channels, width, 7, stride=2, padding=3, bias=False)


def _head(channels: int, classes: int) -> list[Any]:
    """The mean over all pixels, and one full layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def _image(shape: Shape, least: int) -> tuple[int, int, int]:
    """Channels, height and width, of which nothing is left where they are too small."""
    channels, height, width = shape
    if min(height, width) < least:
        raise ConfigError(
            "shape", f"{height} × {width} pixels must be at least {least} × {least}: take larger images"
        )
    return channels, height, width


def _size(shape: Shape) -> int:
    size = 1
    for one in shape:
        size *= one
    return size


def _models() -> Any:
    try:
        from torchvision import models
    except ImportError as error:
        raise BlindsumError(
            "this net needs torchvision; install it with `pip install 'blindsum[vision]'`"
        ) from error
    return models


CIFAR, MNIST, LARGE = (3, 32, 32), (1, 28, 28), (3, 224, 224)

NETS: Mapping[str, Net] = {
    "logistic": Net(_logistic, CIFAR, 10, 30_730, "thesis: 30,730 (CIFAR-10)"),
    "cnn5": Net(_cnn5(128), MNIST, 62, 1_206_590, "FLASHE: 1.20 million (FEMNIST)"),
    "cnn5-small": Net(_cnn5(25), MNIST, 10, 249_501, "MYSTIKO: 1 MB (MNIST)"),
    "lenet5": Net(_lenet5, MNIST, 10, 61_706, "none of them; LeCun et al. (1998): 60,000"),
    "resnet20": Net(_resnet20, CIFAR, 10, 269_722, "FLASHE: 0.27 million (CIFAR-10)"),
    "gru": Net(_gru, (80,), 97, 661_075, "FLASHE: 0.66 million (Shakespeare)"),
    "resnet18": Net(
        _resnet(18), CIFAR, 10, 11_173_962, "thesis: 11,173,962 (CIFAR-10); MYSTIKO: 50 MB (SVHN)"
    ),
    "resnet50": Net(_resnet(50), CIFAR, 100, 23_705_252, "MYSTIKO: 110 MB (CIFAR-100)"),
    "vgg11": Net(_vgg("A"), CIFAR, 10, 9_231_114, "thesis: 9,231,114 (CIFAR-10)"),
    "vgg16": Net(_vgg("D"), LARGE, 1000, 138_357_544, "MYSTIKO: 600 MB (ImageNet)"),
    "densenet121": Net(_densenet121, CIFAR, 10, 6_956_298, "thesis: 6,956,298 (CIFAR-10)"),
    "simple-dla": Net(_simple_dla, CIFAR, 10, 15_142_970, "thesis: 15,142,970 (CIFAR-10)"),
    "vit-b16": Net(lambda s, c: _vit(s, c, "random"), LARGE, 10, 7_690, "thesis: 7,690 (CIFAR-10)"),
}
"""Every net by its name."""
