"""Other networks of PyTorch, also in jobs where parties have no data, get NaN or come late: `make torch`."""

import threading

import numpy as np
import peft
import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

import blindsum as bs
from blindsum.torch import ModelVector

WORDS, WIDTH = 11, 8


class Recurrent(nn.Module):
    """A GRU language model, whose embedding and last layer are one."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS)
        self.head.weight = self.embed.weight

    def forward(self, words):
        return self.head(self.gru(self.embed(words))[0])


class Transformer(nn.Module):
    """Attention with tied embeddings, positions that are frozen, and several precisions."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(5, WIDTH), requires_grad=False)
        self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.embed.weight
        self.scale = nn.Parameter(torch.ones(WIDTH, dtype=torch.float64))
        self.shift = nn.Parameter(torch.zeros(WIDTH, dtype=torch.bfloat16))
        self.gate = nn.Parameter(torch.ones(WIDTH, dtype=torch.float16))

    def forward(self, words):
        seen = self.layer(self.embed(words) + self.places)
        return self.head((seen * self.scale * self.gate + self.shift).float())


def gpt2():
    return GPT2LMHeadModel(GPT2Config(vocab_size=WORDS, n_positions=5, n_embd=WIDTH, n_layer=1, n_head=2))


def logits(net, words):
    given = net(words)
    return getattr(given, "logits", given)


def words_of(seed, rows=20):
    """Sentences in which each word is the one after the word before."""
    starts = torch.randint(WORDS, (rows, 1), generator=torch.Generator().manual_seed(seed))
    return (starts + torch.arange(6)) % WORDS


def loss_of(net, words):
    return nn.functional.cross_entropy(logits(net, words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())


def train(net, words, steps=1):
    optimiser = torch.optim.SGD([one for one in net.parameters() if one.requires_grad], lr=0.5)
    for _ in range(steps):
        optimiser.zero_grad()
        loss_of(net, words).backward()
        optimiser.step()


NETS = [(Recurrent, "embed.weight"), (Transformer, "embed.weight"), (gpt2, "transformer.wte.weight")]


@pytest.mark.parametrize(("make", "tied"), NETS, ids=["gru", "transformer", "gpt2"])
def test_other_networks_train_as_they_do_alone(make, tied):
    torch.manual_seed(1)
    own, alone = make().eval(), make().eval()
    vector = ModelVector(own)
    names = [line.split()[0] for line in vector.layout]
    assert names.count(tied) == 1
    assert not any("head" in name and "weight" in name for name in names)
    assert "places" not in names
    start = ModelVector(alone).values()
    vector.load(start)
    words = words_of(1)
    # The same network, tied and cut as before.
    if make is Transformer:
        alone.places.copy_(own.places)
    with torch.no_grad():
        assert torch.equal(logits(own, words[:, :5]), logits(alone, words[:, :5]))
    train(own, words)
    train(alone, words)
    change = vector.change()
    assert np.array_equal(vector.values(), ModelVector(alone).values())
    assert np.count_nonzero(change) > 0.5 * vector.dim
    assert np.allclose(start + change, vector.values(), atol=1e-2 if make is Transformer else 1e-6)


class Mirror(nn.Module):
    """An encoder and a decoder that is the same memory, transposed."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(6, 3, bias=False)
        self.decode = nn.Linear(3, 6, bias=False)
        self.decode.weight = nn.Parameter(self.encode.weight.t())


def test_a_weight_that_is_tied_transposed_is_sent_once():
    net = Mirror()
    vector = ModelVector(net)
    assert vector.layout == ("encode.weight float32 3x6",)
    vector.load(np.arange(18.0))
    assert torch.equal(net.decode.weight, net.encode.weight.t())
    with torch.no_grad():
        net.decode.weight[5, 0] += 1
    assert np.flatnonzero(vector.change()).tolist() == [5]


def test_a_weight_that_is_tied_in_another_shape_is_sent_once():
    net = nn.Sequential(
        nn.Linear(4, 4, bias=False), nn.Linear(16, 1, bias=False), nn.Linear(2, 4, bias=False)
    )
    net[1].weight = nn.Parameter(net[0].weight.view(1, 16))
    # A part of a weight is no weight that is tied.
    net[2].weight = nn.Parameter(net[0].weight[:, :2])
    assert ModelVector(net).layout == ("0.weight float32 4x4", "2.weight float32 4x2")


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_sparse_weights_are_refused():
    for sparse in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
        net = nn.Module()
        net.weight = nn.Parameter(sparse)
        with pytest.raises(bs.ConfigError, match="weight is sparse or quantised"):
            ModelVector(net)


def test_a_square_weight_and_another_are_two():
    net = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    flat = torch.zeros(32)
    for place, layer in enumerate(net):
        layer.weight = nn.Parameter(flat[16 * place : 16 * (place + 1)].view(4, 4))
    assert ModelVector(net).dim == 32


def test_a_weight_whose_elements_share_memory_is_refused():
    net = nn.Module()
    net.scale = nn.Parameter(torch.zeros(1).expand(6))
    with pytest.raises(bs.ConfigError, match=r"scale has elements that share memory.*clone\(\)"):
        ModelVector(net)


def test_of_lora_a_last_layer_that_is_saved_takes_part():
    net = nn.Sequential()
    net.add_module("body", nn.Linear(6, 6))
    net.add_module("head", nn.Linear(6, 2))
    lora = peft.LoraConfig(r=2, target_modules=["body"], modules_to_save=["head"])
    names = [
        line.split()[0].removeprefix("base_model.model.")
        for line in ModelVector(peft.get_peft_model(net, lora)).layout
    ]
    assert names == [
        "body.lora_A.default.weight",
        "body.lora_B.default.weight",
        "head.modules_to_save.default.weight",
        "head.modules_to_save.default.bias",
    ]


DEADLINES = {"join_deadline": 2.0, "input_deadline": 300.0, "stage_deadline": 60.0}
ROUNDS = 6


class Parties:
    """Parties on threads: one has no data in round 1, one gets NaN in round 2, one comes after round 2."""

    def __init__(self, place, coordinator, make):
        self._place, self._coordinator, self._make = place, coordinator, make
        self.survivors, self.losses, self.last, self.failed = {}, {}, {}, []
        self.late_is_here, self.two_are_done = threading.Event(), threading.Event()
        self._threads = []

    def start(self, name):
        job = self._place.join(self._coordinator, name, give_up_after=60.0)
        if name == "late":
            self.late_is_here.set()
        self._threads.append(threading.Thread(target=self._run, args=(name, job)))
        return self._threads[-1]

    def wait(self):
        for thread in self._threads:
            thread.join(300)
        assert not self.failed

    def _run(self, name, job):
        try:
            with job:
                self._take_part(name, job)
        except BaseException as error:
            self.failed.append((name, error))
            self.two_are_done.set()
            raise

    def _take_part(self, name, job):
        net = self._make()
        if self._make is Transformer:
            nn.init.zeros_(net.places)
        own, words = ModelVector(net), words_of(len(name))
        for rnd in job.rounds():
            own.load(rnd.model)
            if (name, rnd.number) == ("empty", 1):
                continue
            loss = loss_of(net, words)
            train(net, words)
            if (name, rnd.number) == ("nan", 2):
                loss = spoil(net)
                with pytest.raises(bs.InputError, match=r"embed.weight\[0, 0\] is nan"):
                    own.change()
                rnd.skip("it is not finite")
                continue
            rnd.submit(own.change(), weight=len(words), metrics={"loss": loss})
            outcome = rnd.outcome()
            self.survivors[rnd.number] = outcome.survivors
            self.losses[rnd.number] = outcome.metrics["loss"]
            if rnd.number == 2:
                self.two_are_done.set()
                assert self.late_is_here.wait(120)
        own.load(job.final_model)
        self.last[name] = (job.final_model.tobytes(), own.values().tobytes())


def spoil(net):
    with torch.no_grad():
        net.embed.weight[0, 0] = float("nan")
    return float("nan")


@pytest.mark.parametrize("make", [Recurrent, Transformer])
def test_parties_without_data_with_nan_and_too_late_stay_in_the_job(place, tmp_path, make):
    """With FedAdam. All of them are in the last round, and have the coordinator's model bit for bit."""
    first = ModelVector(make())
    spec = place.spec(
        protocol="secagg",
        parties=6,
        min_parties=3,
        rounds=ROUNDS,
        dim=first.dim,
        layout=first.layout,
        clip=1.0,
        bits=24,
        max_weight=100,
        metrics=[bs.Metric("loss", 0, 10)],
        **DEADLINES,
    ).replace(step=bs.FedAdam(learning_rate=0.03))
    names = ["a", "b", "c", "empty", "nan"]
    with place.coordinator(spec, model=first.values(), store=tmp_path / "job.sqlite") as coordinator:
        parties = Parties(place, coordinator, make)
        coordinator.pause("all come first")
        threads = [parties.start(name) for name in names]
        for thread in threads:
            thread.start()
        coordinator.resume("all are here")
        assert parties.two_are_done.wait(300)
        assert not parties.failed
        parties.start("late").start()
        parties.wait()
        model = coordinator.model
    assert {"a", "b", "c"} <= set(parties.survivors[1]) <= {"a", "b", "c", "nan"}
    assert {"a", "b", "c"} <= set(parties.survivors[2]) <= {"a", "b", "c", "empty"}
    assert set(parties.survivors[ROUNDS]) == {*names, "late"}
    assert parties.losses[ROUNDS] < parties.losses[1]
    assert {known for known, _ in parties.last.values()} == {model.tobytes()}
    assert len({loaded for _, loaded in parties.last.values()}) == 1
    assert len(parties.last) == 6
