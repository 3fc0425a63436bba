"""Join a job at a coordinator."""

from __future__ import annotations

from collections.abc import Sequence

from blindsum import _native, checks
from blindsum.addresses import addresses
from blindsum.first_model import initial_of
from blindsum.layouts import ModelLayout, check, lines_of
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.policy import Policy, rules_of
from blindsum.session import Session

MASK_MEMORY = 256 << 20
"""Bytes of masks that may be computed ahead, by default: enough for 2**26 words of up to 32 bits."""

MAX_MASK_MEMORY = 2**63 - 1


def join(
    url: str | Sequence[str],
    *,
    job: str,
    identity: AnyPath | Identity,
    ca: AnyPath,
    revoked: AnyPath | None = None,
    policy: Policy | None = None,
    server_name: str | None = None,
    state_dir: AnyPath | None = None,
    ledger_witness: AnyPath | None = None,
    give_up_after: float = 120.0,
    mask_memory: int = MASK_MEMORY,
    location: str = "",
    layout: ModelLayout | Sequence[str] | None = None,
    initial: object = None,
    weight: float | None = None,
) -> Session:
    """Join a job at a coordinator, over mutual TLS.

    Parameters
    ----------
    url
        The coordinator, ``https://HOST:PORT``. For a job whose three servers compute together (``mpc3``) the
        list of all three, the coordinator first: this party decides whose servers it trusts.
    job
        Name of the job.
    identity
        The party's certificate and key: the path of ``NAME.pem`` and ``NAME.key`` without ending, or
        a folder with one such pair; for an encrypted key a :class:`blindsum.pki.Identity`.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    revoked
        The CA's revocation list; if one is used, it must be updated before it expires. A changed one is
        read again while the party runs, as are its certificate and the CA's.
    policy
        The rules by which the party accepts the job; ``None`` means the defaults of :class:`Policy`.
    server_name
        The name in the coordinator's certificate, if it is not the host of ``url``.
    state_dir
        A folder in which the party remembers the round under way, so that it can go on after a crash if its
        update was sent. A party that is killed before that takes part in the next round. The folder also
        holds the survivors that the party answered for and, where :attr:`JobSpec.hides_sum`, the key of the
        job and the model. Without a folder a party that restarts gets key and model from the others.
        The ledger of its data is there, too, for jobs with noise.
    ledger_witness
        A file on another disk, in which the ledger says how far it has come after each release. A ledger
        that was put back to an earlier state is refused. ``None`` keeps none.
    give_up_after
        Seconds for which the party tries to reach the coordinator, at first and after every lost connection.
    mask_memory
        Bytes of masks that may be computed ahead of time, while the party trains or waits for others for more
        than 0.2 s; with 0 masks are computed when they are needed. ``flashe`` has masks to compute ahead, and
        the ring and the all-reduce of ``paillier`` the random part of encryption.
    location
        Where the party is, in words of your own, at most 64 characters; ``""`` says nothing. The
        coordinator receives it. Rings with ``order = "location"`` use this order.
    layout
        This party's model: a ``ModelVector`` (:mod:`blindsum.torch`, ``.jax``, ``.sklearn``), or the lines of
        its layout. A job of another model is refused; where the job binds no layout, one of another ``dim``.
    initial
        A model that this party can give a job with ``initial = "first-party"``: ``dim`` floats, something
        with ``.values()`` that gives them, or a function that gives either and is called once, before the
        party connects. The coordinator asks one party for it. The first model is not secret: the coordinator
        and all parties learn it, and who gave it.
    weight
        The weight of updates that come without one, e.g. this party's number of examples.

    Raises
    ------
    blindsum.LayoutError
        The job is of another model than ``layout``; it names the first difference.
    blindsum.InputError
        ``initial`` is no vector of the job's ``dim`` finite floats, or the job takes no model from a party;
        or ``weight`` is no weight of the job.
    blindsum.ConfigError
        A name that no job can have, or another argument that cannot be right; nothing was tried then.
    blindsum.IdentityError
        Certificates or keys that cannot be used.
    blindsum.NetworkError
        The coordinator cannot be reached, is not trusted, or refuses this party.
    blindsum.PolicyError
        The job breaks the policy.

    Examples
    --------
    ::

        with bs.join("https://agg.example:9443", job="tumour", identity="hospital-a", ca="ca.pem") as job:
            for rnd in job.rounds():
                update = train(rnd.model, data)
                rnd.submit(update, weight=len(data))
                mean = rnd.result()  # None where the round was lost; the loop goes on
    """
    rules = rules_of(policy)
    lines = None if layout is None else lines_of(layout)
    memory = checks.setting("mask_memory", mask_memory, 0, MAX_MASK_MEMORY)
    first, servers = addresses(url)
    checks.line("job", job)
    if server_name is not None:
        checks.line("server_name", server_name)
    native = _native.join(
        first,
        job,
        pem_files(identity, ca, revoked),
        server_name,
        rules,
        None if state_dir is None else checks.folder("state_dir", state_dir),
        None if ledger_witness is None else checks.path("ledger_witness", ledger_witness),
        checks.seconds("give_up_after", give_up_after),
        memory,
        servers,
        checks.line("location", location),
        initial_of(initial),
    )
    session = Session(native)
    with session.left_on_error():
        session.weigh(weight)
        if lines is not None:
            check(lines, session.spec.layout, session.spec.dim)
    return session
