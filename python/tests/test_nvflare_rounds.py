"""Rounds of NVFlare's sites and server, and the call in a loop, without nvflare."""

import dataclasses
import sys
import threading
import types

import numpy as np
import pytest
from test_nvflare import MODEL, SITES, job_settings

import blindsum as bs
import blindsum.nvflare
from blindsum import pki, told_once
from blindsum.hosted import hash_of
from blindsum.nvflare.params import Params, content_of
from blindsum.nvflare.server import Host
from blindsum.nvflare.settings import SiteSettings
from blindsum.nvflare.sites import LATE, Invitation, SitePart
from blindsum.nvflare.texts import HASH, MEAN

ABOUT = ["the content of a task"]


@pytest.fixture(autouse=True)
def _nothing_was_told():
    told_once.told.clear()


@pytest.fixture
def place(tmp_path):
    pki.init(tmp_path)
    pki.issue(tmp_path, "agg", hosts=["127.0.0.1"])
    for site in SITES:
        pki.issue(tmp_path, site)
    return tmp_path


def server(place, **fields):
    return SiteSettings(coordinator_identity=str(place / "agg"), ca=str(place), **fields)


def owner(place, site):
    return SiteSettings(identity=str(place / site), ca=str(place), give_up_after=5.0)


@pytest.fixture
def host(place):
    running = Host(job_settings(metrics="loss:0:10").spec("nvflare-1", 5, 4), server(place), {})
    yield running
    running.stop()


class Site(threading.Thread):
    """A site in a thread that joins a round, waits, and gives an update."""

    def __init__(self, place, told, site, tag, number=1.0, train=lambda: None, about=ABOUT):
        super().__init__(daemon=True)
        self.part = self.found = self.error = None
        party = told["parties"][site]
        invitation = Invitation(told["url"], told["job"], tag, HASH, told["hash"], party)
        self.work, self.about = (place, invitation, site, number, train), about
        self.start()

    def run(self):
        place, invitation, site, number, train = self.work
        try:
            self.part = SitePart(invitation, owner(place, site), Params(MODEL), self.about)
            train()
            self.found = self.part.give(np.full(5, 0.01 * number), int(number), {"loss": number})
        except bs.BlindsumError as error:
            self.error = error
        finally:
            if self.part is not None:
                self.part.leave()

    def ended(self):
        self.join(60)
        assert not self.is_alive()
        return self


def plain(numbers):
    return sum(0.01 * n * n for n in numbers) / sum(numbers)


def test_a_round_gives_the_server_and_the_sites_one_sum(place, host):
    for tag in (0, 1):
        assert host.begin(tag, SITES, ABOUT)
        assert not host.begin(tag, SITES, ABOUT)
        sites = [Site(place, host.told(), site, tag, n + 1) for n, site in enumerate(SITES)]
        found = host.result()
        assert found.tag == tag
        assert np.allclose(found.mean, plain((1, 2, 3, 4)), atol=1e-4)
        assert found.total_weight == 10
        assert found.metrics["loss"] == pytest.approx(3.0, abs=1e-4)
        for site in sites:
            assert site.ended().error is None
            assert site.found.result == found.result


def test_a_site_that_was_given_another_model_is_in_no_sum(place, host):
    contents = [content_of(task_of({"w": np.zeros(5)}, {"lr": rate})) for rate in (0.1, 0.1, 0.1, 0.2)]
    host.begin(0, SITES, contents[0])
    sites = [
        Site(place, host.told(), site, 0, n + 1, about=about)
        for n, (site, about) in enumerate(zip(SITES, contents, strict=True))
    ]
    found = host.result()
    assert np.allclose(found.mean, plain((1, 2, 3)), atol=1e-4)
    assert "about something else" in found.lost["site-4"]
    assert isinstance(sites[3].ended().error, bs.OtherContent)
    assert [site.ended().error for site in sites[:3]] == [None, None, None]


def task_of(data, meta, kind="WEIGHTS", **headers):
    """A task as NVFlare's dictionaries have it."""
    return {"DXO": {"kind": kind, "data": data, "meta": meta}, "__headers__": headers}


def test_contents_of_tasks_are_the_same_on_both_sides():
    data, meta = {"b": np.ones(2), "a": np.float32(1)}, {"rate": 0.1, "names": ["x", None], "deep": {"n": 1}}
    found = hash_of(content_of(task_of(data, meta, num_rounds=3)))
    same = task_of(dict(reversed(data.items())), meta, num_rounds=3, __task_id__="another", blindsum={"a": 1})
    assert found == hash_of(content_of(same))
    for other in (
        task_of(data, meta, "WEIGHT_DIFF", num_rounds=3),
        task_of(data | {"a": np.float64(1)}, meta, num_rounds=3),
        task_of(data, meta | {"rate": 0.2}, num_rounds=3),
        task_of(data, meta | {"deep": {"n": "1"}}, num_rounds=3),
        # Training reads this one as `total_rounds`.
        task_of(data, meta, num_rounds=4),
        task_of(data, meta, num_rounds=3) | {"more": 1},
    ):
        assert found != hash_of(content_of(other))
    with pytest.raises(bs.ConfigError, match=r"is a builtins.object in the task"):
        content_of(task_of(data, {"what": object()}))


@pytest.mark.parametrize("unbound", [False, True])
def test_at_a_coordinator_that_stands_the_owner_of_a_site_decides_on_the_binding(place, unbound):
    """Its host may not say what a round is about; then a server that deviates may give sites other models."""
    spec = job_settings().spec("tumour", 5, 4)
    with bs.Coordinator(spec, identity=place / "agg", ca=place, hosted=True, listen="127.0.0.1:0") as host:
        url = f"https://127.0.0.1:{host.address.rpartition(':')[2]}"
        parts = [
            SitePart(
                Invitation(url, "tumour", 3),
                dataclasses.replace(owner(place, site), unbound=unbound),
                Params(MODEL),
                ABOUT,
            )
            for site in SITES
        ]
        pending, found = host.begin(SITES, tag=3), []

        def give(part):
            try:
                found.append(part.give(np.full(5, 0.01), 1, {}))
            except bs.BlindsumError as error:
                found.append(error)

        threads = [threading.Thread(target=give, args=(part,)) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        if unbound:
            assert pending.result().survivors == SITES
        else:
            with pytest.raises(bs.RoundLost):
                pending.result()
            assert all(isinstance(one, bs.OtherContent) for one in found)
        assert len(found) == 4


def test_a_site_that_the_server_reports_costs_no_deadline(place, host):
    host.begin(0, SITES, ABOUT)
    sites = [Site(place, host.told(), site, 0, n + 1) for n, site in enumerate(SITES[:3])]
    host.failed("site-4", "its task failed: EXECUTION_EXCEPTION")
    host.failed("nobody", "is in no round")
    found = host.result()
    assert np.allclose(found.mean, plain((1, 2, 3)), atol=1e-4)
    assert "EXECUTION_EXCEPTION" in found.lost["site-4"]
    for site in sites:
        assert site.ended().found.result == found.result


def test_a_site_whose_training_fails_leaves_and_the_others_go_on(place, host):
    host.begin(0, SITES, ABOUT)
    joined, go_on = threading.Event(), threading.Event()
    sites = [Site(place, host.told(), site, 0, n + 1, go_on.wait) for n, site in enumerate(SITES[:3])]

    def fail():
        joined.set()
        raise bs.InputError("update", "training failed")

    broken = Site(place, host.told(), "site-4", 0, 4, fail)
    assert joined.wait(60)
    assert isinstance(broken.ended().error, bs.InputError)
    go_on.set()
    assert np.allclose(host.result().mean, plain((1, 2, 3)), atol=1e-4)
    for site in sites:
        assert site.ended().error is None


def test_an_update_of_one_round_never_gets_into_the_next(place, host):
    host.begin(0, SITES, ABOUT)
    go_on = threading.Event()
    late = Site(place, host.told(), "site-4", 0, 4, go_on.wait)
    early = [Site(place, host.told(), site, 0, n + 1) for n, site in enumerate(SITES[:3])]
    host.failed("site-4", "is late")
    assert np.allclose(host.result().mean, plain((1, 2, 3)), atol=1e-4)
    for site in early:
        site.ended()
    host.begin(1, SITES[:3], ABOUT)
    told = host.told()
    go_on.set()
    late.ended()
    # Which of the two it hears depends on whether it came before the end of its round.
    assert isinstance(late.error or late.found, bs.BlindsumError)
    sites = [Site(place, told, site, 1, 1.0) for site in SITES[:3]]
    assert np.allclose(host.result().mean, 0.01, atol=1e-4)
    for site in sites:
        assert site.ended().error is None


def test_a_round_that_is_lost_for_all_is_no_error_of_a_site(place, host):
    host.begin(0, SITES, ABOUT)
    sites = [Site(place, host.told(), site, 0) for site in SITES[:3]]
    for site in SITES[2:]:
        host.failed(site, "its task failed")
    with pytest.raises(bs.RoundLost) as caught:
        host.result()
    assert caught.value.tag == 0
    # One comes when it is over already.
    sites.append(Site(place, host.told(), "site-4", 0))
    for site in (*sites[:2], sites[3]):
        assert site.ended().error is None
        assert isinstance(site.found, bs.RoundAborted)
    host.begin(1, SITES[:3], ABOUT)
    again = [Site(place, host.told(), site, 1) for site in SITES[:3]]
    assert np.allclose(host.result().mean, 0.01, atol=1e-4)
    for site in again:
        site.ended()


def test_a_site_that_comes_after_the_sum_is_told_that_it_is_late(place, host):
    """Its round is over for good: it hears so, without a tag that nobody gave."""
    host.begin(0, SITES, ABOUT)
    sites = [Site(place, host.told(), site, 0, n + 1) for n, site in enumerate(SITES[:3])]
    host.failed("site-4", "its task failed")
    assert np.allclose(host.result().mean, plain((1, 2, 3)), atol=1e-4)
    for site in sites:
        assert site.ended().error is None
    late = Site(place, host.told(), "site-4", 0).ended().error
    assert isinstance(late, bs.RoundAborted)
    assert late.only_me
    assert "came too late: the round of tag 0 has its sum" in str(late)
    assert str(LATE) not in str(late)


def test_a_new_round_of_the_workflow_ends_one_that_is_under_way(place, host):
    host.begin(0, SITES, ABOUT)
    stale = Site(place, host.told(), "site-1", 0)
    host.begin(1, SITES[:3], ABOUT)
    sites = [Site(place, host.told(), site, 1) for site in SITES[1:3]]
    host.failed("site-1", "is in the round before")
    with pytest.raises(bs.RoundLost):
        host.result()
    for site in (stale, *sites):
        site.ended()


def test_names_of_certificates_may_differ_from_those_of_sites(place):
    spec = job_settings().spec("nvflare-1", 5, 4)
    running = Host(spec, server(place), {"Klinik A": "site-1"})
    try:
        running.begin(0, ["Klinik A", *SITES[1:]], ABOUT)
        told = running.told()
        assert told["parties"]["Klinik A"] == "site-1"
        running.failed("Klinik A", "its task failed")
        other = Invitation(told["url"], told["job"], 0, HASH, told["hash"], "site-1")
        with pytest.raises(bs.ConfigError, match="names=") as caught:
            SitePart(other, owner(place, "site-2"), Params(MODEL), ABOUT)
        assert caught.value.field == "identity"
    finally:
        running.stop()


def test_too_few_sites_of_a_round_are_refused(host):
    with pytest.raises(bs.ConfigError) as caught:
        host.begin(0, SITES[:2], ABOUT)
    assert caught.value.field == "min_clients"


def test_a_url_that_is_not_in_the_certificate_is_refused(place):
    spec = job_settings().spec("nvflare-1", 5, 4)
    with pytest.raises(bs.ConfigError) as caught:
        Host(spec, server(place, coordinator_url="https://elsewhere.example:9443"), {})
    assert caught.value.field == "coordinator_url"


def test_a_server_without_a_certificate_is_told_where_to_name_it():
    with pytest.raises(bs.ConfigError) as caught:
        Host(job_settings().spec("nvflare-1", 5, 4), SiteSettings(), {})
    assert caught.value.field == "coordinator_identity"


@pytest.mark.parametrize(
    ("changes", "settings", "kind", "says"),
    [
        ({"job_hash": "0" * 64}, {}, bs.NetworkError, "two runs"),
        ({}, {"identity": None}, bs.ConfigError, "identity"),
        ({}, {"policy": bs.Policy(min_honest=9)}, bs.PolicyError, "min_honest"),
        ({}, {"ca": "/nowhere"}, bs.IdentityError, "nowhere"),
    ],
)
def test_a_site_refuses_a_round_before_it_trains(place, host, changes, settings, kind, says):
    host.begin(0, SITES, ABOUT)
    told = host.told()
    invitation = Invitation(told["url"], told["job"], 0, HASH, told["hash"], "site-1")
    with pytest.raises(kind, match=says):
        SitePart(
            dataclasses.replace(invitation, **changes),
            dataclasses.replace(owner(place, "site-1"), **settings),
            Params(MODEL),
            ABOUT,
        )


def test_a_job_of_another_model_is_refused(place, host):
    host.begin(0, SITES, ABOUT)
    told = host.told()
    invitation = Invitation(told["url"], told["job"], 0, HASH, told["hash"], "site-1")
    with pytest.raises(bs.ConfigError) as caught:
        SitePart(invitation, owner(place, "site-1"), Params({"a": np.zeros(3)}), ABOUT)
    assert caught.value.field == "dim"


def flashe(place):
    spec = bs.JobSpec(
        job="tumour", protocol="flashe", parties=4, dim=5, rounds=0, model_update="none", min_parties=3
    )
    return bs.Coordinator(spec, identity=place / "agg", ca=place, hosted=True)


def test_a_protocol_that_hides_sums_serves_where_sites_reply_with_the_mean(place):
    with flashe(place) as coordinator:
        url = f"https://127.0.0.1:{coordinator.address.rpartition(':')[2]}"
        settings = dataclasses.replace(
            owner(place, "site-1"),
            policy=bs.Policy(allowed_protocols=["flashe"], require_adversary=None),
        )
        with pytest.raises(bs.ConfigError, match="hides sums from the server"):
            SitePart(Invitation(url, "tumour", 0, HASH), settings, Params(MODEL), ABOUT)
        SitePart(Invitation(url, "tumour", 0, MEAN), settings, Params(MODEL), ABOUT).leave()


# Loops


@dataclasses.dataclass
class Model:
    """As NVFlare's FLModel, as far as `aggregate` looks at it."""

    params: object = None
    params_type: object = "FULL"
    metrics: object = None
    current_round: object = None
    total_rounds: object = None
    meta: object = None


@pytest.fixture
def flare(monkeypatch):
    module = types.ModuleType("nvflare.app_common.abstract.fl_model")
    module.FLModel = Model
    module.ParamsType = types.SimpleNamespace(FULL="FULL", DIFF="DIFF")
    for name in ("nvflare", "nvflare.app_common", "nvflare.app_common.abstract"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)


def loop(place, host, outputs):
    """Sites whose loop calls `aggregate` once; what each would send, or its error."""
    host.begin(0, SITES[: len(outputs)], ABOUT)
    told, found = host.told(), {}

    def run(site, output):
        with bs.join(told["url"], job=told["job"], identity=place / site, ca=place) as job:
            try:
                sent = Model(MODEL, current_round=0, total_rounds=2)
                found[site] = blindsum.nvflare.aggregate(job, sent, output)
            except bs.BlindsumError as error:
                found[site] = error

    threads = [
        threading.Thread(target=run, args=pair)
        for pair in zip(SITES, outputs, strict=False)
        if pair[1] is not None
    ]
    for thread in threads:
        thread.start()
    host.result()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return found


def trained(number, params_type="FULL"):
    change = {"layer": np.full((2, 2), 0.01 * number, np.float32), "scale": 0.01 * number}
    full = {name: MODEL[name] + array for name, array in change.items()} | {"count": np.array(8)}
    return Model(
        full if params_type == "FULL" else change,
        params_type,
        {"loss": float(number), "auc": 0.5},
        meta={"NUM_STEPS_CURRENT_ROUND": number, "secret": 3},
    )


@pytest.mark.parametrize("params_type", ["FULL", "DIFF"])
def test_one_call_in_a_loop_gives_the_model_to_send(place, host, flare, params_type):
    found = loop(place, host, [trained(n + 1, params_type) for n in range(4)])
    for site in SITES:
        model = found[site]
        base = MODEL["scale"] if params_type == "FULL" else 0.0
        assert model.params_type == params_type
        assert model.params["scale"] == pytest.approx(base + plain((1, 2, 3, 4)), abs=1e-4)
        assert np.array_equal(model.params["layer"], found["site-1"].params["layer"])
        assert ("count" in model.params) == (params_type == "FULL")
        assert model.params.get("count", 7) == 7
        assert model.metrics == {"loss": pytest.approx(3.0, abs=1e-4)}
        assert model.meta["NUM_STEPS_CURRENT_ROUND"] == 10
        assert "secret" not in model.meta
        assert model.current_round == 0


class Lost:
    """As a session whose round was lost, as far as `aggregate` looks at it."""

    name, is_over = "site-1", False
    spec = job_settings().spec("nvflare-1", 5, 4)

    def __init__(self, lost):
        self.lost = lost

    def aggregate(self, *given, **named):
        return None


def test_after_a_round_without_a_sum_the_loop_sends_the_model_of_before(flare):
    job = Lost(bs.RoundAborted(3, "too few parties are left"))
    for params_type, layer in (("FULL", MODEL["layer"]), ("DIFF", np.zeros((2, 2)))):
        sent = blindsum.nvflare.aggregate(job, Model(MODEL, current_round=0), trained(3, params_type))
        assert np.array_equal(sent.params["layer"], layer)
        assert sent.meta["NUM_STEPS_CURRENT_ROUND"] == 3
        assert "too few parties are left" in sent.meta["blindsum"]["lost"]


@pytest.mark.parametrize(
    "lost",
    [
        bs.RoundAborted(3, "too slow", only_me=True),
        bs.ResultMissed(3, "restarted"),
        bs.Fault("server", "two rosters"),
        bs.PolicyError("min_honest", "policy min_honest: 2 are left"),
    ],
)
def test_a_site_that_alone_was_lost_raises(flare, lost):
    with pytest.raises(type(lost)):
        blindsum.nvflare.aggregate(Lost(lost), Model(MODEL, current_round=0), trained(3))


def test_a_site_without_steps_or_a_job_has_nothing_to_send(flare):
    job = Lost(None)
    with pytest.raises(bs.InputError, match="weight"):
        blindsum.nvflare.aggregate(job, Model(MODEL, current_round=0), trained(3), weight=0)
    job.is_over = True
    with pytest.raises(bs.SessionClosedError):
        blindsum.nvflare.aggregate(job, Model(MODEL, current_round=0), trained(3))


def test_a_site_that_alone_has_no_result_sends_nothing(place, host, flare):
    host.begin(1, SITES[:3], ABOUT)
    told = host.told()
    with (
        bs.join(told["url"], job=told["job"], identity=place / "site-1", ca=place) as job,
        pytest.raises(bs.OtherTag),
    ):
        blindsum.nvflare.aggregate(job, Model(MODEL, current_round=0), trained(1))


def test_a_model_without_a_round_cannot_be_summed(flare):
    with pytest.raises(bs.InputError, match="current_round"):
        blindsum.nvflare.aggregate(None, Model(MODEL), trained(1))
