"""A job of NVFlare whose sites have the filter: what its author writes."""

from __future__ import annotations

from typing import Any

from blindsum.errors import ConfigError
from blindsum.nvflare.texts import TRAIN


def secure(job: Any, *, url: str = "", name: str = "", tasks: tuple[str, ...] = (TRAIN,)) -> None:
    """Put :class:`blindsum.nvflare.SecureFilter` in front of what the sites of a job send.

    A site that has the filter in its own ``local/privacy.json`` needs none in the job.

    Parameters
    ----------
    job
        A recipe or a ``FedJob``, with everything that runs at sites in it already: filters that clip or add
        noise come first.
    url, name
        A coordinator that stands, and the name of its job, where the server has no
        :class:`blindsum.nvflare.SecureAggregator`.
    tasks
        The tasks whose results are updates.

    Raises
    ------
    blindsum.ConfigError
        Neither a recipe nor a job, or one of ``url`` and ``name`` alone.
    """
    from nvflare.job_config.api import FedJob
    from nvflare.job_config.defs import FilterType
    from nvflare.recipe.spec import Recipe

    from blindsum.nvflare.filters import SecureFilter

    if bool(url) != bool(name):
        missing = "name" if url else "url"
        raise ConfigError(missing, "is missing: a permanent coordinator has both; give both")
    if isinstance(job, Recipe):
        job.add_client_input_filter(SecureFilter(url, name), tasks=list(tasks))
        job.add_client_output_filter(SecureFilter(url, name), tasks=list(tasks))
        _not_copied(job._job)
    elif isinstance(job, FedJob):
        for kind in (FilterType.TASK_DATA, FilterType.TASK_RESULT):
            job.to_clients(SecureFilter(url, name), filter_type=kind, tasks=list(tasks))
        _not_copied(job)
    else:
        rule = f"is a {type(job).__name__}, and must be a Recipe or a FedJob of NVFlare: give one"
        raise ConfigError("job", rule)


def _not_copied(job: Any) -> None:
    """Let NVFlare copy no module of Blindsum into the job: it is installed at all sites."""
    packages = list(job.job.app_packages or [])
    job.set_app_packages([*packages, *({"blindsum"} - set(packages))])
