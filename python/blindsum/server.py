"""Run a server of a job beside its coordinator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from blindsum import _native, checks
from blindsum.errors import ForkedError
from blindsum.pki import AnyPath, Identity, pem_files
from blindsum.spec import JobSpec


class Server:
    """A server of a job beside its coordinator. Use it in a ``with`` statement.

    It is the second or the third of three that compute together (``mpc3``), or the one that makes keys and
    opens sums, alone (``paillier`` with a ``decryptor``).

    It runs on native threads until its job is over or :meth:`stop` is called. The three servers belong in the
    hands of three organisations: any two of them together can read every update.

    Parameters
    ----------
    spec
        The job. This server takes part in no other one, whatever the coordinator says.
    servers
        The URLs of all servers as everybody reaches them, the coordinator first. They have different
        hosts: a server is known by the host that its certificate is for.
    place
        Which of them this is: 1 or 2; a decryptor is 1.
    identity
        The server's certificate and key (``blindsum pki issue --server``): the path of ``NAME.pem`` and
        ``NAME.key`` without ending, or a folder with one such pair; for an encrypted key a
        :class:`blindsum.pki.Identity`.
    ca
        The certificate of the job's CA, or the folder with ``ca.pem``.
    state_dir
        A folder in which it remembers the latest round that it was in: started again, it is in no round a
        second time.
    listen
        ``HOST:PORT``; with port 0 the system chooses a free one.
    revoked
        The CA's revocation list.
    limits
        Limits for parties and the other servers, by name, as those of :class:`Coordinator`.
    results
        A folder for the results that this server learns, as that of :class:`Coordinator`. There may be one
        of a round that the coordinator did not count.
    metrics
        Where scrapes and health checks are answered, as that of :class:`Coordinator`.

    Attributes
    ----------
    address : str
        The address at which it listens, ``HOST:PORT``.
    metrics : str or None
        The address at which scrapes and health checks are answered, ``HOST:PORT``.

    Raises
    ------
    blindsum.IdentityError, blindsum.ConfigError, blindsum.StoreError, blindsum.NetworkError
        It cannot start; the error says why.
    """

    def __init__(
        self,
        spec: JobSpec,
        *,
        servers: Sequence[str],
        place: int,
        identity: AnyPath | Identity,
        ca: AnyPath,
        state_dir: AnyPath,
        listen: str = "127.0.0.1:0",
        revoked: AnyPath | None = None,
        limits: Mapping[str, float] | None = None,
        results: AnyPath | None = None,
        metrics: str | None = None,
    ) -> None:
        checks.job_spec(spec)
        bounds = {name: checks.limit(name, value) for name, value in (limits or {}).items()}
        self._native = _native.follow(
            spec._job,
            list(servers),
            checks.setting("place", place, 1, 2),
            listen,
            pem_files(identity, ca, revoked),
            checks.folder("state_dir", state_dir),
            bounds,
            None if results is None else checks.folder("results", results),
            metrics,
        )
        self.address = self._native.address
        self.metrics = self._native.metrics

    def wait(self, timeout: float) -> bool:
        """Wait until the server has ended, and say whether it has.

        Parameters
        ----------
        timeout
            Seconds to wait at most.

        Raises
        ------
        blindsum.BlindsumError
            It could not go on.
        """
        return self._native.wait(checks.finite("timeout", timeout))

    def stop(self) -> None:
        """End the server; :meth:`wait` says when that is done. A round under way ends without a sum."""
        self._native.stop()

    def reload(self) -> None:
        """Read certificate, key, CA and revocation list again now.

        This also happens by itself, within seconds of a change of one of the files. A file that cannot be
        used is logged, and what was read before it stays in use.
        """
        self._native.reload()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # In a forked child the server is that of the parent, which goes on.
        with suppress(ForkedError):
            self.stop()
            while not self.wait(1.0):
                pass
