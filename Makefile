# Everything starts here: `make help`. Needs Rust (rustup or a package), Python >= 3.11 and a C compiler;
# the rest is set up in .tools and .venv inside this folder.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# An `uv` on the PATH is used; otherwise one is installed into .tools.
UV := $(or $(shell command -v uv),.tools/bin/uv)
FUZZ_SECONDS ?= 60
TIMED = $(PYTHON) tools/timed.py
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

# maturin finds uv there.
export PATH := $(CURDIR)/.tools/bin:$(PATH)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/$(VENV)
export UV_PYTHON_DOWNLOADS := never
export MPLBACKEND := Agg
# Python's compiled code is kept here, also where the environment says that none is to be written beside the sources: tests
# start hundreds of processes, and each would compile NumPy and scikit-learn anew.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.state/pycache

.DEFAULT_GOAL := help
.PHONY: help demo test bench experiments interop etcd monitoring dashboard report domains data nets torch flower nvflare openfl fuzz mutants docs site build release format clean \
	schema checks test-rust test-python lint-rust lint-python vectors cases

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .state/demo ## Train on real data over mutual TLS, one party killed on the way
	$(BIN)/blindsum demo

test: ## Format, lints, Rust and Python tests; says in the end where the time went
	@rm -f .state/timed
	@status=0; $(MAKE_COMMAND) --no-print-directory checks || status=$$?; $(PYTHON) tools/timed.py --show; exit $$status
	@echo "make test: everything passed"

checks: lint-rust test-rust lint-python vectors test-python cases

bench: .state/bench build ## Measure against the targets, with the peer beside it
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact \
		--group dev --group bench --group bench-he --extra demo
	$(BIN)/blindsum bench secagg
	$(BIN)/blindsum bench pss
	$(BIN)/blindsum bench pss-malicious
	$(BIN)/blindsum bench flashe
	$(BIN)/blindsum bench paillier
	$(BIN)/blindsum bench round --protocol secagg+ --parties 10 --dim 100000

experiments: .state/bench ## Repeat the experiments of the papers, into experiments/results/
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact \
		--group dev --group bench-he --extra demo
	$(BIN)/python -m experiments.pss_sharing
	$(BIN)/python -m experiments.pss_rounds
	$(BIN)/python -m experiments.fssa
	$(BIN)/python -m experiments.fssa_secagg
	$(BIN)/python -m experiments.flashe_wan
	$(BIN)/python -m experiments.flashe_density
	$(BIN)/python -m experiments.flashe_regression
	$(BIN)/python -m experiments.aciq_bounds
	$(BIN)/python -m experiments.taylor_noise
	$(BIN)/python -m experiments.privacy_audit
	$(BIN)/python -m experiments.privacy_accuracy
	$(BIN)/python -m experiments.mpc_tables
	$(BIN)/python -m experiments.mpc_network
	$(BIN)/python -m experiments.mystiko
	$(BIN)/python -m experiments.attacks
	$(BIN)/python -m experiments.poisoning
	$(BIN)/python -m experiments.accuracy
	$(BIN)/python -m experiments.overhead
	$(BIN)/python -m experiments.robust_training
	$(BIN)/python -m experiments.flashe_training
	$(BIN)/python -m experiments.thesis_skew
	$(BIN)/python -m experiments.links

fuzz: ## Run every fuzz target for FUZZ_SECONDS (60)
	$(PYTHON) tools/fuzz.py --seconds $(FUZZ_SECONDS)

mutants: .state/tools ## Take each defence out once and see its tests turn red (takes hours)
	$(PYTHON) tools/mutants.py

interop: .state/debug ## A client written from the documents alone, in jobs with the program's own parties
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --group interop
	cd tools/interop && ../../$(BIN)/python -m pytest -p no:cacheprovider
	cd tools/interop && ../../$(BIN)/python play.py

# Where there is no etcd this fails and says so. The same is tested with a stand-in by `make test`.
etcd: .state/debug ## Leases in a real etcd, which is killed: needs etcd on the PATH, or ETCD=PROGRAM
	@command -v "$${ETCD:-etcd}" >/dev/null || { echo "make: error: no etcd: install it (Debian: etcd-server), or say ETCD=PROGRAM"; exit 1; }
	$(BIN)/pytest python/tests/etcd_real.py

# Where there is no Prometheus this fails and says so. What can be tested without is tested by `make test`.
monitoring: .state/debug ## A real Prometheus scrapes a coordinator: needs prometheus, promtool and systemd-analyze on the PATH
	$(BIN)/pytest python/tests/monitoring_real.py

# Where there is no Chromium this fails and says so. What can be tested without is tested by `make test`.
dashboard: .state/debug ## The dashboard in a browser, while a party is killed: needs chromium on the PATH, or CHROMIUM=PROGRAM
	$(BIN)/pytest python/tests/dashboard_real.py

# The same holds for the report.
report: .state/debug ## The report of a training run in a browser without a network: needs chromium on the PATH, or CHROMIUM=PROGRAM
	$(BIN)/pytest python/tests/report_real.py

domains: .state/debug ## Learners of one organisation over torch.distributed; installs torch, 5 GB with CUDA on Linux
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --extra demo --extra domains
	$(BIN)/python -m pytest python/tests/test_domains.py python/tests/test_domain_rules.py -n $$(( 2 * $(JOBS) ))

# Where the images are not installed this fails and says so. Readers are tested with small files by `make test`.
data: .state/debug ## Fashion-MNIST is read and dealt: needs its 70,000 images (Debian: dataset-fashion-mnist)
	@test -d /usr/share/datasets/fashion-mnist || { echo "make: error: no Fashion-MNIST: install it (Debian: dataset-fashion-mnist)"; exit 1; }
	$(BIN)/pytest python/tests/data_real.py

nets: .state/debug ## The nets of the papers, with torch and torchvision; installs both, 5 GB with CUDA on Linux
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --extra demo --extra vision
	$(BIN)/python -m pytest python/tests/nets_real.py -n $(JOBS)

torch: .state/debug ## Networks of PyTorch as vectors, in jobs and in Flower; installs torch, 5 GB with CUDA on Linux
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact \
		--group dev --group adapters --extra demo --extra torch --extra flower
	$(BIN)/python -m pytest -W ignore::DeprecationWarning \
		python/tests/torch_real.py python/tests/nets_job_real.py python/tests/llm_real.py python/tests/torch_flower_real.py

# Libraries of Flower warn of each other's deprecations.
flower: .state/debug ## Flower apps in one process, in its simulation, and in a deployment over TLS; installs flwr with ray
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --extra demo --extra flower
	$(BIN)/python -m pytest -W ignore::DeprecationWarning python/tests/flower*_real.py

nvflare: .state/debug ## Jobs of NVFlare in its simulator and in a deployment over TLS; installs nvflare
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --extra demo --extra nvflare
	$(BIN)/python -m pytest -W ignore::DeprecationWarning python/tests/nvflare*_real.py

openfl: .state/debug ## The code for OpenFL of docs/other-frameworks.md; installs openfl beside, in an environment of its own
	PYTHONPATH=python:. $(UV) run --quiet --no-project --python $(PYTHON) --with openfl==1.9 --with hypothesis --with pytest \
	    --with pytest-timeout --with pytest-xdist python -m pytest python/tests/openfl_real.py

schema: ## Write the Rust code of the wire again, after a change of proto/
	cargo run --quiet --locked --manifest-path tools/schema/Cargo.toml

docs: ## API documentation, and check the links of docs/
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	$(PYTHON) tools/links.py

site: .state/tools ## A site of the documentation into build/site; needs npm the first time
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --group site
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/make_site.py

# Zig links against the C library of old systems, so the wheel runs there, too. maturin finds it by the Python on the PATH.
PACKAGE := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/release.py

build: .state/package ## Build a wheel into dist/, with blindsum and blindsumd
	$(PACKAGE) --wheel

release: .state/package ## Wheels and blindsumd for x86_64 and aarch64, SBOM and checksums into dist/, and try them
	$(PACKAGE)
	$(BIN)/python tools/check_release.py

format: .state/tools ## Format everything
	cargo fmt
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove everything that was built or installed here
	cargo clean
	rm -rf .state .tools $(VENV) build dist

lint-rust: .state/tools
	cargo fmt --check
	$(TIMED) clippy cargo clippy --workspace --all-targets --features blindsum-python/testing --locked -j $(JOBS) -- -D warnings

RUST_TESTS := --workspace --exclude blindsum-bench --features blindsum-python/testing --locked -j $(JOBS)

test-rust: .state/tools
	$(TIMED) "build of the Rust tests" cargo test --no-run --quiet $(RUST_TESTS)
	$(TIMED) "Rust tests" $(PYTHON) tools/test_rust.py $(RUST_TESTS)

lint-python: .state/debug
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(TIMED) mypy $(BIN)/mypy
	$(BIN)/python tools/options.py --check
	$(BIN)/python tools/pictures.py --check

vectors:
	$(TIMED) vectors $(PYTHON) vectors/make.py --check

cases:
	$(TIMED) mutants $(PYTHON) tools/mutants.py --check
	$(PYTHON) tools/cases.py --check
	$(PYTHON) tools/links.py
	$(PYTHON) tools/circles.py
	$(PYTHON) tools/objects.py
	$(PYTHON) tools/generated.py
	$(PYTHON) tools/branches.py

# What benches/kernels.py asks cargo for is built before, with all cores: in a test it takes other tests' time, and a limit.
# Most tests wait for processes and deadlines, so more of them run than there are cores. Files run in the order of their
# names: reordered by their number of tests, those with few long ones would come last, alone.
test-python: .state/debug
	$(TIMED) "benches that tests run" cargo test --workspace --locked --quiet --no-run -j $(JOBS) \
		--bench pss --bench paillier --bench proofs
	$(TIMED) "Python tests" $(BIN)/pytest -n $$(( 2 * $(JOBS) )) --dist loadfile --no-loadscope-reorder

# The native module, in the same profile and with the same features as in `cargo test` so that they share what they
# build. It is always asked for: cargo knows best what has changed. Tests and benches take it with the timers, which are
# in no wheel.
.PHONY: .state/debug .state/demo .state/bench
.state/debug: .state/tools
	$(TIMED) "native module" $(BIN)/maturin develop --uv --locked --quiet --profile dev --features testing

.state/bench: .state/tools
	$(BIN)/maturin develop --uv --locked --release --features timers

# In half the time of a release.
.state/demo: .state/tools
	$(BIN)/maturin develop --uv --locked --profile demo

# Python packages, from the lock file. The project itself is built by maturin above.
.state/tools: uv.lock pyproject.toml $(if $(findstring /,$(UV)),$(UV))
	@command -v cargo >/dev/null || { echo "make: error: no cargo on the PATH; install Rust >= 1.91"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: error: $(PYTHON) is older than 3.11; run make PYTHON=/path/to/python3.11"; exit 1; }
	$(TIMED) "Python packages" $(UV) sync --locked --python $(PYTHON) --no-install-project --inexact --group dev --extra demo
	@mkdir -p .state && touch $@

.state/package: .state/tools
	$(UV) sync --locked --quiet --python $(PYTHON) --no-install-project --inexact --group dev --group package
	@touch $@

.tools/bin/uv:
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet uv
