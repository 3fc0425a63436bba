"""``blindsum model``: a job's model from a store, even while that is used; and its first one from code."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from blindsum.cli.files import check_file, inputs, named, write_array
from blindsum.cli.stores import job_name
from blindsum.libraries import vector_of
from blindsum.metrics_text import best_text

EXAMPLES = """\
examples:
  blindsum model --store job.sqlite --out model.npy
  blindsum model --store job.sqlite --job tumour --version 12 --out model-12.npy
  blindsum model --store job.sqlite --best --out best.npy     of a job with stop
  blindsum model init mymodel:Net --out model.npy     the first model of a job, from your code

The store keeps the latest models_kept versions (3 unless `serve --limit models_kept=N` says otherwise), and
the best one of a job with stop.
"""

INIT_EXAMPLES = """\
examples:
  blindsum model init mymodel:Net --out model.npy
  blindsum model init mymodel:make_vector --out model.npy --layout layout.toml

TARGET is module:name, also in the current folder: a torch.nn.Module, an estimator of scikit-learn, a pytree
of JAX, a ModelVector, or a class or function without arguments that gives one. The lines that are printed
belong in the job file, above its tables; `blindsum serve --model model.npy` starts from the model.
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = "Write a job's model out of a store. A coordinator may use it meanwhile."
    parser.epilog = EXAMPLES
    parser.add_argument("--store", type=named, metavar="FILE", help="the coordinator's SQLite file")
    parser.add_argument("--job", metavar="NAME", help="name of the job (default: the only one)")
    parser.add_argument("--version", type=int, metavar="N", help="version of the model (default: the latest)")
    parser.add_argument(
        "--best", action="store_true", help="the version with the best value of the metric that stop names"
    )
    parser.add_argument("--out", type=named, metavar="FILE", help="where to, .npy")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")
    parser.set_defaults(run=run)
    commands = parser.add_subparsers(metavar="init")
    init = commands.add_parser(
        "init",
        help="write the first model of a job from your code",
        description="Write a model of your code as the first one of a job, and print its layout.",
        epilog=INIT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("target", metavar="TARGET", help="the model, module:name")
    # Also before `init`, where the parser of the command reads it.
    init.add_argument("--out", type=named, default=argparse.SUPPRESS, metavar="FILE", help="where to, .npy")
    init.add_argument(
        "--layout", type=named, metavar="FILE", help="write the layout there, not to the output"
    )
    init.add_argument(
        "--force", action="store_true", default=argparse.SUPPRESS, help="replace files that are there"
    )
    init.set_defaults(run=run_init)


def run(options: argparse.Namespace) -> int:
    """Read and write."""
    from blindsum.cli.flags import named_as_flags
    from blindsum.coordinator import stored_best_model, stored_jobs, stored_model, stored_versions
    from blindsum.errors import ConfigError, StoreError

    for option in ("store", "out"):
        if getattr(options, option) is None:
            raise ConfigError(f"--{option}", "must be given; `blindsum model --help` says more")
    if options.best and options.version is not None:
        raise ConfigError("--best", "names a version: leave --best or --version out")
    check_file("--out", options.out, inputs(options, "store"))
    jobs = {job["job"]: job for job in stored_jobs(options.store)}
    name = job_name(list(jobs), options.job)
    _must_be_new("--out", options.out, options.force)
    if options.best:
        with named_as_flags("best"):
            best, values = stored_best_model(options.store, name)
        write_array(options.out, values)
        print(f"version {best['version']} of the model of job {name}, {best_text(best)}: {options.out}")
        return 0
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


def _must_be_new(option: str, path: str | None, force: bool) -> None:
    """Refuse to replace a file without --force."""
    from blindsum.errors import ConfigError

    if path is not None and os.path.exists(path) and not force:
        raise ConfigError(option, f"{path} exists: give another file, or replace it with --force")


def run_init(options: argparse.Namespace) -> int:
    """Make the model and write it."""
    from blindsum.errors import ConfigError

    if options.out is None:
        raise ConfigError("--out", "must be given; `blindsum model init --help` says more")
    for option in ("store", "job", "version"):
        if getattr(options, option) is not None:
            raise ConfigError(f"--{option}", "is of models in a store; leave it out before `init`")
    if options.best:
        raise ConfigError("--best", "is of models in a store; leave it out before `init`")
    check_file("--out", options.out)
    check_file("--layout", options.layout, [("--out", options.out)])
    _must_be_new("--out", options.out, options.force)
    _must_be_new("--layout", options.layout, options.force)
    vector = vector_of(_target(options.target))
    write_array(options.out, vector.values())
    lines = [f"  {json.dumps(line, ensure_ascii=False)}," for line in vector.layout]
    text = "\n".join([f"dim = {vector.dim}", "layout = [", *lines, "]"])
    told = f"{options.out}: {vector.dim:,} coordinates in {len(lines)} tensors"
    if options.layout is None:
        print(f"# {told}\n{text}")
        return 0
    with open(options.layout, "w", encoding="utf-8") as file:
        file.write(f"{text}\n")
    print(f"{told}; for the job file: {options.layout}")
    return 0


def _target(text: str) -> Any:
    """What the import path names; what a class or a function makes."""
    from blindsum.cli.modules import module, raised, split
    from blindsum.errors import ConfigError

    name, what = split("TARGET", text, "MODULE:NAME, e.g. mymodel:Net")
    found = getattr(module("TARGET", name), what, None)
    if found is None:
        raise ConfigError("TARGET", f"module {name} has no {what}")
    # A network is called with data: it is a model already.
    is_maker = isinstance(found, type) or (callable(found) and hasattr(found, "__code__"))
    if not is_maker:
        return found
    try:
        return found()
    except Exception as error:
        rule = f"{text} must give a model when it is called without arguments, and raised {raised(error)}"
        raise ConfigError("TARGET", rule) from error
