"""The nets of the papers, in torch and torchvision: `make nets` installs both and runs this."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from blindsum.errors import ConfigError, DataError
from blindsum.learning import data, nets

# Other work shares the machine.
torch.set_num_threads(1)

SMALL = [name for name, net in nets.NETS.items() if len(net.shape) == 3 and net.shape[1] < nets.SMALL]
"""Nets that are quick enough to be trained here."""


def made(name, **arguments):
    if name == "vit-b16":
        arguments.setdefault("weights", "random")
    return nets.make(name, **arguments)


def batch(shape, count):
    generator = torch.Generator().manual_seed(1)
    if len(shape) == 1:
        return torch.randint(0, 97, (count, *shape), generator=generator)
    return torch.rand((count, *shape), generator=generator)


@pytest.mark.parametrize("name", nets.NETS)
def test_a_net_has_as_many_parameters_as_its_table_says_and_scores_every_label(name):
    net = nets.NETS[name]
    with torch.device("meta"):
        built = made(name).eval()
        examples = torch.zeros((2, *net.shape), dtype=torch.int64 if name == "gru" else torch.float32)
        scores = built(examples)
    assert nets.trainable(built) == net.parameters
    assert scores.shape == (2, net.classes)


# The numbers of the papers, beside which the table stands.
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("logistic", 30_730),
        ("vit-b16", 7_690),
        ("densenet121", 6_956_298),
        ("vgg11", 9_231_114),
        ("resnet18", 11_173_962),
        ("simple-dla", 15_142_970),
    ],
)
def test_the_nets_of_the_thesis_are_exactly_as_large_as_it_says(name, said):
    assert nets.NETS[name].parameters == said
    assert f"thesis: {said:,}" in nets.NETS[name].papers


@pytest.mark.parametrize(("name", "millions"), [("resnet20", 0.27), ("gru", 0.66), ("cnn5", 1.20)])
def test_the_nets_of_flashe_are_as_large_as_it_says_but_for_one_in_a_hundred(name, millions):
    assert nets.NETS[name].parameters == pytest.approx(millions * 1e6, rel=0.01)


@pytest.mark.parametrize(
    ("name", "megabytes", "tolerance"),
    [("cnn5-small", 1, 0.01), ("resnet18", 50, 0.15), ("resnet50", 110, 0.15), ("vgg16", 600, 0.15)],
)
def test_the_nets_of_mystiko_are_about_as_large_as_it_says(name, megabytes, tolerance):
    assert 4 * nets.NETS[name].parameters / 1e6 == pytest.approx(megabytes, rel=tolerance)


@pytest.mark.parametrize("name", [*SMALL, "gru"])
def test_a_net_learns_a_batch(name):
    torch.manual_seed(1)
    net = made(name).train()
    examples, labels = batch(nets.NETS[name].shape, 4), torch.arange(4)
    optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(examples), labels)
        loss.backward()
        assert all(one.grad is not None for one in net.parameters())
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("shape", [(1, 32, 32), (3, 40, 36)])
def test_other_images_and_labels_fit(name, shape):
    with torch.device("meta"):
        scores = made(name, shape=shape, classes=7).eval()(torch.zeros((2, *shape)))
    assert scores.shape == (2, 7)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "densenet121", "vgg11"])
def test_large_images_are_made_smaller_first(name):
    with torch.device("meta"):
        net = made(name, shape=(3, 224, 224), classes=1000).eval()
        assert net(torch.zeros((2, 3, 224, 224))).shape == (2, 1000)
    published = {
        "resnet18": 11_689_512,
        "resnet50": 25_557_032,
        "densenet121": 7_978_856,
        "vgg11": 132_863_336,
    }
    assert nets.trainable(net) == published[name]


def test_the_same_seed_gives_the_same_net():
    def values():
        torch.manual_seed(3)
        return torch.nn.utils.parameters_to_vector(made("resnet20").parameters())

    assert torch.equal(values(), values())


def test_a_frozen_backbone_stays_as_it_was(tmp_path):
    from torchvision.models import vit_b_16

    torch.manual_seed(1)
    whole = vit_b_16()
    torch.save(whole.state_dict(), tmp_path / "vit.pth")
    net = nets.make("vit-b16", shape=(3, 32, 32), weights=tmp_path / "vit.pth")
    body = net[1]
    assert torch.equal(body.conv_proj.weight, whole.conv_proj.weight)
    assert [name for name, one in body.named_parameters() if one.requires_grad] == [
        "heads.0.weight",
        "heads.0.bias",
    ]
    torch.nn.functional.cross_entropy(net(batch((3, 32, 32), 2)), torch.arange(2)).backward()
    assert body.heads[0].weight.grad.abs().sum() > 0
    assert body.conv_proj.weight.grad is None


def test_files_without_the_weights_are_refused(tmp_path):
    torch.save({"a": torch.zeros(1)}, tmp_path / "other.pth")
    (tmp_path / "damaged.pth").write_bytes(b"\x80\x02}q")
    torch.save(torch.zeros(1), tmp_path / "array.pth")
    torch.save(made("logistic"), tmp_path / "code.pth")
    for name in ("other.pth", "damaged.pth", "array.pth", "code.pth", "missing.pth"):
        with pytest.raises(DataError, match="holds no weights of torchvision's vit_b_16") as raised:
            nets.make("vit-b16", weights=tmp_path / name)
        assert raised.value.path == str(tmp_path / name)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"name": "resnet19"}, "name"),
        ({"name": "resnet20", "shape": (80,)}, "shape"),
        ({"name": "resnet20", "shape": (3, 0, 32)}, "shape"),
        ({"name": "lenet5", "shape": (1, 11, 11)}, "shape"),
        ({"name": "vgg11", "shape": (3, 31, 40)}, "shape"),
        ({"name": "logistic", "classes": 0}, "classes"),
        ({"name": "logistic", "weights": "x.pth"}, "weights"),
        ({"name": "vit-b16"}, "weights"),
        ({"name": "vit-b16", "weights": "random", "shape": (1, 28, 28)}, "shape"),
    ],
)
def test_wrong_arguments_are_named(arguments, field):
    with pytest.raises(ConfigError) as raised:
        nets.make(**arguments)
    assert raised.value.field == field


PAGE = Path(__file__).resolve().parents[2] / "docs/data.md"


def test_the_page_has_the_table_of_the_nets():
    rows = re.findall(
        r"^\| `([\w-]+)` \| ([\d ×]+) \| (\d+) \| ([\d,]+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE
    )
    assert rows == [
        (name, " × ".join(map(str, net.shape)), str(net.classes), f"{net.parameters:,}", net.papers)
        for name, net in nets.NETS.items()
    ]


def test_the_page_builds_nets(capsys):
    (block,) = re.findall(r"^```python nets\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(block, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "61706 650\n"


def test_texts_and_digits_go_into_nets():
    text = data.load("python-topics", part="test")
    scores = made("gru", classes=len(text.names))(torch.from_numpy(text.features[:3]))
    assert scores.shape == (3, len(text.names))
    digits = data.load("digits")
    net = made("logistic", shape=digits.features.shape[1:], classes=10)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
    images, labels = torch.from_numpy(digits.features), torch.from_numpy(digits.labels)
    for _ in range(100):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    test = data.load("digits", part="test")
    found = net(torch.from_numpy(test.features)).argmax(dim=1).numpy()
    assert np.mean(found == test.labels) > 0.9
