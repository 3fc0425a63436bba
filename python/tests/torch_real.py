"""Networks of PyTorch as vectors, with a real PyTorch: `make torch`. The rest is in test_models.py."""

import resource
import threading
import time

import models_example
import numpy as np
import peft
import pytest
import torch
from torch import nn

import blindsum as bs
from blindsum.cli import main
from blindsum.torch import ModelVector


class Net(nn.Module):
    """Convolution, BatchNorm, tied weights, a frozen layer, one without use, several precisions."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.bn = nn.BatchNorm2d(4)
        self.frozen = nn.Linear(5, 5)
        self.frozen.requires_grad_(False)
        self.embed = nn.Embedding(7, 3)
        self.head = nn.Linear(3, 7, bias=False)
        self.head.weight = self.embed.weight
        self.short = nn.Parameter(torch.full((3,), 0.1, dtype=torch.float16))
        self.brain = nn.Parameter(torch.full((2,), 0.1, dtype=torch.bfloat16))
        self.long_ = nn.Parameter(torch.tensor(0.1, dtype=torch.float64))
        self.turned = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
        self.unused = nn.Parameter(torch.zeros(2))
        self.register_buffer("counter", torch.tensor(3))
        self.register_buffer("local", torch.zeros(4), persistent=False)
        self.register_parameter("none", None)


LAYOUT = (
    "short float16 3",
    "brain bfloat16 2",
    "long_ float64 1",
    "turned float32 3x2",
    "unused float32 2",
    "conv.weight float32 4x1x3x3",
    "conv.bias float32 4",
    "bn.weight float32 4",
    "bn.bias float32 4",
    "embed.weight float32 7x3",
    "bn.running_mean float32 4",
    "bn.running_var float32 4",
)


def test_what_takes_part_of_a_network():
    vector = ModelVector(Net())
    assert vector.layout == LAYOUT
    assert vector.dim == sum(np.prod([int(n) for n in line.split()[2].split("x")]) for line in LAYOUT)
    assert vector.values().dtype == np.float64
    everything = ModelVector(Net(), parameters="all", buffers="none").layout
    assert {line.split()[0] for line in everything} - {line.split()[0] for line in LAYOUT} == {
        "frozen.weight",
        "frozen.bias",
    }
    assert not any("running" in line for line in everything)
    chosen = ModelVector(Net(), parameters=lambda name, tensor: name.startswith("conv"), buffers="none")
    assert chosen.layout == ("conv.weight float32 4x1x3x3", "conv.bias float32 4")


def test_a_model_is_loaded_and_trained_and_its_change_is_the_update():
    net = Net()
    vector = ModelVector(net)
    types = {name: tensor.dtype for name, tensor in net.state_dict().items()}
    pointers = {name: tensor.data_ptr() for name, tensor in net.named_parameters()}
    model = np.random.default_rng(1).normal(size=vector.dim)
    model.flags.writeable = False
    vector.load(model)
    assert {name: tensor.dtype for name, tensor in net.state_dict().items()} == types
    assert {name: tensor.data_ptr() for name, tensor in net.named_parameters()} == pointers
    assert net.head.weight is net.embed.weight
    assert not net.turned.is_contiguous()
    assert np.array_equal(net.turned.detach().numpy().ravel(), model[6:12].astype(np.float32))
    assert float(net.long_.detach()) == model[5]
    assert int(net.counter) == 3
    # Rounding to float16 is no training.
    assert not vector.change().any()
    with torch.no_grad():
        net.turned[2, 1] += 1
        net.bn.running_var += 0.5
        net.bn.num_batches_tracked += 9
    change = vector.change()
    assert change[11] == pytest.approx(1, abs=1e-6)
    assert np.allclose(change[-4:], 0.5)
    assert np.count_nonzero(change) == 5
    assert np.array_equal(vector.values()[:3], net.short.detach().float().numpy())


def test_moves_and_wrappers_change_no_name():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    vector = ModelVector(net)
    assert vector.layout == ModelVector(nn.DataParallel(net)).layout
    assert vector.layout == ModelVector(torch.compile(net)).layout
    net.to("meta").to_empty(device="cpu")
    vector.load(np.arange(vector.dim, dtype=np.float32))
    assert net[1].running_var.tolist() == [vector.dim - 2, vector.dim - 1]
    net.half()
    with pytest.raises(bs.ConfigError, match=r"0.weight is float16 .* now, was 0.weight float32 2x3 before"):
        vector.values()


def test_errors_name_the_entry_and_say_what_to_do():
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    vector = ModelVector(net)
    with pytest.raises(bs.InputError, match="call load"):
        vector.change()
    with pytest.raises(bs.InputError, match="where a round was lost"):
        vector.load(None)
    vector.load(vector.values())
    with torch.no_grad():
        net[1].weight[1] = float("nan")
    with pytest.raises(bs.InputError, match=r"update: 1.weight\[1\] is nan, .* lower the learning rate"):
        vector.change()


@pytest.mark.parametrize(
    ("net", "field", "text"),
    [
        (nn.ReLU(), "parameters", "no tensor takes part"),
        (nn.Linear(2, 2).requires_grad_(False), "parameters", "parameters='all'"),
        (nn.LazyLinear(3), "net", "run one batch"),
        (nn.Linear(2, 2, dtype=torch.complex64), "net", "weight is of complex64"),
        (nn.Linear(2, 2, device="meta"), "net", "has no memory"),
        (object(), "net", "must be a torch.nn.Module, not a object"),
    ],
)
def test_networks_that_cannot_be_vectors_are_refused(net, field, text):
    with pytest.raises(bs.ConfigError, match=text) as caught:
        ModelVector(net)
    assert caught.value.field == field


def test_choices_that_do_not_exist_are_refused():
    with pytest.raises(bs.ConfigError, match="buffers: 'all' must be"):
        ModelVector(Net(), buffers="all")
    with pytest.raises(bs.ConfigError, match="parameters: 'most' must be"):
        ModelVector(Net(), parameters="most")


class Attention(nn.Module):
    """What LoRA is for, in small."""

    def __init__(self):
        super().__init__()
        self.query, self.value = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        return torch.softmax(self.query(x), -1) * self.value(x)


def test_of_lora_the_adapters_alone_are_sent():
    lora = peft.LoraConfig(r=4, target_modules=["query", "value"], init_lora_weights=False)
    net = peft.get_peft_model(Attention(), lora)
    vector = ModelVector(net)
    assert vector.dim == 2 * (4 * 32 + 32 * 4)
    assert all("lora_" in line for line in vector.layout)
    vector.load(vector.values() + np.float32(0.01))
    frozen = net.base_model.model.query.base_layer.weight.detach().clone()
    optimiser = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
    net(torch.ones(2, 32)).square().sum().backward()
    optimiser.step()
    assert vector.change().any()
    assert torch.equal(frozen, net.base_model.model.query.base_layer.weight)


def test_thirty_million_parameters_are_copied_once():
    net = nn.Sequential(*(nn.Linear(1000, 1000) for _ in range(30)))
    vector = ModelVector(net)
    model = vector.values()
    model.flags.writeable = False
    size = model.nbytes
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    begun = time.perf_counter()
    vector.load(model)
    loaded = time.perf_counter()
    with torch.no_grad():
        net[0].weight += 1
    trained = time.perf_counter()
    change = vector.change()
    done = time.perf_counter()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        f"\n{vector.dim:,} parameters: load {loaded - begun:.3f} s, change {done - trained:.3f} s, "
        f"{(after - before) / size:.2f} vectors of memory"
    )
    assert np.allclose(change[:1_000_000], 1)
    assert not change[1_000_000:].any()
    # One vector is the change; the model is used where it is.
    assert after - before < 1.6 * size


def test_parties_train_a_network_together(place):
    torch.manual_seed(1)
    data = torch.randn(200, 6)
    labels = (data.sum(1) > 0).long()
    first = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    vector = ModelVector(first)
    spec = place.spec(parties=3, rounds=8, dim=vector.dim, max_weight=100, layout=vector.layout, clip=10.0)
    accuracy = {}

    def party(name, share):
        net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        own = ModelVector(net)
        optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
        with place.join(coordinator, name, layout=own) as job:
            while (model := job.model()) is not None:
                own.load(model)
                for _ in range(5):
                    optimiser.zero_grad()
                    nn.functional.cross_entropy(net(data[share]), labels[share]).backward()
                    optimiser.step()
                job.aggregate(own.change(), weight=50)
            own.load(job.final_model)
            net.eval()
            accuracy[name] = float((net(data).argmax(1) == labels).float().mean())

    with place.coordinator(spec, model=vector.values()) as coordinator:
        shares = {f"p{rank}": slice(rank, None, 3) for rank in range(3)}
        threads = [threading.Thread(target=party, args=item) for item in shares.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(set(accuracy.values())) == 1
    assert accuracy["p0"] > 0.9


def test_the_example_learns_together(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10))
    vector = ModelVector(net)
    models_example.check("torch", vector, tmp_path, model=vector.values())


def test_the_first_model_of_a_job_comes_from_code(tmp_path, monkeypatch, capsys):
    (tmp_path / "hospitalnet.py").write_text(
        "from torch import nn\n\ndef make():\n    return nn.Linear(3, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["model", "init", "hospitalnet:make", "--out", "model.npy"]) == 0
    assert '"weight float32 2x3",' in capsys.readouterr().out
    assert np.load("model.npy").shape == (8,)
