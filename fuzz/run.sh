#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (60), or only those named on the command line; stops at the first
# finding. See README.md.
set -eu
cd "$(dirname "$0")"

seconds=${FUZZ_SECONDS:-60}
targets=${*:-words shares roster certificates job_spec snapshot client_machine server_machine encoder}

if ! command -v cargo-fuzz >/dev/null; then
    echo "cargo-fuzz is missing: cargo install cargo-fuzz --locked --version 0.13.2" >&2
    exit 1
fi
if cargo +nightly --version >/dev/null 2>&1; then
    toolchain=+nightly
else
    # The sanitizer needs unstable flags of the stable compiler.
    toolchain=
    export RUSTC_BOOTSTRAP=1
fi

for target in $targets; do
    mkdir -p "corpus/$target" "seeds/$target"
    # The same limits for all: 2 GiB in total, 256 MiB at once, 20 s for one input.
    cargo $toolchain fuzz run --fuzz-dir . "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -malloc_limit_mb=256 -timeout=20 \
        -max_len=4096 -print_final_stats=1 -verbosity=1 -reload=0
done
