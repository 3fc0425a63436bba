"""``blindsum model``: a job's model from a store, even while a coordinator uses it."""

from __future__ import annotations

import argparse
import os

from blindsum.cli.files import check_file, inputs, named, write_array
from blindsum.cli.stores import job_name

EXAMPLES = """\
examples:
  blindsum model --store job.sqlite --out model.npy
  blindsum model --store job.sqlite --job tumour --version 12 --out model-12.npy

The store keeps the latest models_kept versions (3 unless `serve --limit models_kept=N` says otherwise).
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Write a job's model out of a store. A coordinator may use it meanwhile."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "--store", required=True, type=named, metavar="FILE", help="the coordinator's SQLite file"
    )
    parser.add_argument("--job", metavar="NAME", help="name of the job (default: the only one)")
    parser.add_argument("--version", type=int, metavar="N", help="version of the model (default: the latest)")
    parser.add_argument("--out", required=True, type=named, metavar="FILE", help="where to, .npy")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    from blindsum.coordinator import stored_jobs, stored_model, stored_versions
    from blindsum.errors import ConfigError, StoreError

    check_file("--out", options.out, inputs(options, "store"))
    jobs = {job["job"]: job for job in stored_jobs(options.store)}
    name = job_name(list(jobs), options.job)
    if os.path.exists(options.out) and not options.force:
        raise ConfigError("--out", f"{options.out} exists: give another file, or replace it with --force")
    version = jobs[name]["model_version"] if options.version is None else options.version
    model = stored_model(options.store, name, version) if version >= 0 else None
    if model is None:
        kept = ", ".join(map(str, stored_versions(options.store, name))) or "none"
        raise StoreError(
            f"store {options.store}: version {version} of the model of job {name} is not there; give "
            f"--version one of those that are kept: {kept}"
        )
    if not model.size:
        raise StoreError(f"store {options.store}: job {name} has no model")
    write_array(options.out, model)
    print(f"version {version} of the model of job {name}: {options.out}")
    return 0
