#!/usr/bin/env bash
# All tests: Rust, loom models with their mutants, then each installed Python.
#   scripts/test.sh                    everything
#   scripts/test.sh rust|lint|loom|fuzz|notebook
#   scripts/test.sh python PYTHON      under one interpreter
#   scripts/test.sh real [PYTHON ...]  real programs under the tools; REAL=long: each program under each tool
# CONTRIBUTING.md has a table of the stages and their times.
# INVISO_STRESS_SECONDS is the time of each of the two stress tests under each interpreter. INVISO_FUZZ_SECONDS is the time for
# which each reader of foreign bytes is fuzzed: four at a time, which takes a minute on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never INVISO_STRESS_SECONDS="${INVISO_STRESS_SECONDS:-30}" INVISO_FUZZ_SECONDS="${INVISO_FUZZ_SECONDS:-20}"
PYTHON=${PYTHON:-python3}
. scripts/interpreter.sh

lint() {
    echo "== Python: form, lints"
    .venv/bin/python -m ruff format --no-cache --quiet --check .
    .venv/bin/python -m ruff check --no-cache --quiet .
}

rust() {
    echo "== Rust: form, lints, tests"
    cargo fmt --all --check
    cargo clippy --quiet -p inviso-term -p inviso-match -p inviso-core -p inviso-log -p inviso-export -p inviso-port --all-targets -- -D warnings
    cargo test --quiet --workspace --exclude inviso-cpython --exclude inviso-py
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps -p inviso-term -p inviso-match -p inviso-core
    cargo fmt --manifest-path fuzz/Cargo.toml --check
}

fuzz() {
    local body running=()
    echo "== fuzzing: the external term format, logs, bytes of connections"
    CARGO_TARGET_DIR="$PWD/target" cargo test --quiet --manifest-path fuzz/Cargo.toml -- --nocapture
    for body in etf log client frames; do
        PYTHONPATH=tests/python .venv/bin/python "fuzz/python/fuzz_$body.py" "$INVISO_FUZZ_SECONDS" >"target/fuzz-$body.log" 2>&1 &
        running+=("$body:$!")
    done
    for body in "${running[@]}"; do
        wait "${body#*:}" || { cat "target/fuzz-${body%:*}.log"; return 1; }
        echo "${body%:*}, through Python: $(grep -E '^(Done )?[0-9]+ runs' "target/fuzz-${body%:*}.log")"
    done
}

# What x86-64 has of its own has a twin for other processors. Whether it works is tested by hand (CONTRIBUTING.md).
portable() { # interpreter
    RUSTFLAGS="--cfg inviso_portable" PYO3_PYTHON="$1" cargo check --quiet --manifest-path rust/py/Cargo.toml --target-dir target/portable
}

loom() {
    echo "== loom: models, and the bugs that they must find"
    tests/loom.sh
}

one_python() { # interpreter, virtual environment
    scripts/ready.sh "$1" "$2"
    tests "$2"
}

tests() { # virtual environment, [--further]
    echo "== tests under $("$1/bin/python" -VV)"
    "$1/bin/python" -m compileall -q -f benches python scripts tests # finds syntax that is too new for it
    "$1/bin/python" scripts/pytests.py "${@:2}"
    "$1/bin/python" -m tests.conformance --covered \
        tests/data/{gold/{trace_events,match_spec_calls,match_spec,seq_trace},live/{match_spec,seq_trace,trace_events}}.jsonl
}

notebook() {
    echo "== notebooks"
    .venv/bin/python scripts/run_notebooks.py
}

# The installed Pythons of these versions, a line each. The version of the first one is left out: it is done already.
further() { # versions
    local first version found
    first=$("$PYTHON" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')
    for version in "$@"; do
        if ! found=$(interpreter "$version"); then
            echo "== no Python $version here: left out" >&2
        elif [ "$("$found" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')" != "$first" ]; then
            echo "$version $found"
        fi
    done
}

real() { # interpreters; without any the installed ones of 3.11 to 3.13
    local version found
    if [ $# = 0 ]; then
        for version in 3.11 3.12 3.13; do
            if found=$(interpreter "$version"); then set -- "$@" "$found"; else echo "== no Python $version here: left out"; fi
        done
    fi
    "$PYTHON" -m tests.real ${REAL:+"--$REAL"} "$@"
}

# The environments of further Pythons, and whether the forms for other processors compile for them. Only the first one tests the
# release build. These builds have no optimisation at link time, and share a folder of cargo, where all crates but rust/cpython and
# rust/py are built once.
further_builds() { # lines of further
    local version found
    while read -r version found <&3; do
        [ -n "$version" ] || continue
        CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=none CARGO_FOLDER=further \
            scripts/ready.sh "$found" ".venv-$version"
        portable "$PWD/.venv-$version/bin/python"
    done 3<<<"$1"
}

# Prints the time of a stage after its end, and the time of all processors together.
stage() { # name, command...
    local TIMEFORMAT="== $1 took %0R s, and %0U + %0S s of the processors"
    time "${@:2}"
}

case "${1:-all}" in
real) "$@" ;;
rust | loom) "$1" ;;
lint)
    scripts/ready.sh "$PYTHON" .venv
    lint
    ;;
fuzz)
    scripts/ready.sh "$PYTHON" .venv
    fuzz
    ;;
notebook)
    scripts/ready.sh "$PYTHON" .venv +notebook
    notebook
    ;;
python) one_python "$2" ".venv-$("$2" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')" ;;
all)
    scripts/ready.sh "$PYTHON" --check
    others=$(further 3.12 3.13 3.14t)
    # The release build runs beside the stages that don't need it: its linker uses one core.
    mkdir -p target
    stage 'release build' scripts/ready.sh "$PYTHON" .venv +notebook >target/ready.log 2>&1 &
    release=$!
    trap 'kill "$release" 2>/dev/null || true' EXIT
    stage rust rust
    stage loom loom
    stage 'further builds' further_builds "$others"
    wait "$release" || { cat target/ready.log; exit 1; }
    trap - EXIT
    cat target/ready.log
    stage lint lint
    stage "$PYTHON" tests .venv
    while read -r version _ <&3; do
        [ -z "$version" ] || INVISO_STRESS_SECONDS=10 stage "python$version" tests ".venv-$version" --further
    done 3<<<"$others"
    INVISO_WHEEL=built stage 'real programs' real
    stage fuzz fuzz
    stage notebooks notebook
    echo "== all passed"
    ;;
*)
    echo "usage: scripts/test.sh [rust | lint | loom | fuzz | python PYTHON | real [PYTHON ...] | notebook]" >&2
    exit 2
    ;;
esac
