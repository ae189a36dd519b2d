#!/usr/bin/env bash
# All tests: Rust, loom models with their mutants, then each Python that is here.
#   scripts/test.sh            everything
#   scripts/test.sh rust|loom|python PYTHON|notebook
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TERM_COLOR=never

rust() {
    cargo fmt --all --check
    cargo clippy --quiet -p inviso-term -p inviso-core --all-targets -- -D warnings
    cargo test --quiet --workspace --exclude inviso-py
}

loom() {
    tests/loom.sh
}

python() { # interpreter, virtual environment
    echo "== $("$1" -VV)"
    scripts/ready.sh "$1" "$2"
    "$2/bin/python" -m pytest
    "$2/bin/python" -m tests.conformance --covered tests/data/gold/trace_events.jsonl tests/data/gold/match_spec_calls.jsonl
}

# The interpreter of a version: on PATH, or one of pyenv's.
interpreter() {
    command -v "python$1" 2>/dev/null && return
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$1".*/bin/python 2>/dev/null | sort -V | tail -n 1 | grep .
}

notebook() {
    scripts/ready.sh "${PYTHON:-python3}" .venv '.[test,notebook]'
    .venv/bin/python scripts/run_notebooks.py
}

case "${1:-all}" in
rust | loom | notebook) "$1" ;;
python) python "$2" ".venv-$("$2" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')" ;;
all)
    rust
    loom
    python "${PYTHON:-python3}" .venv
    notebook
    for version in 3.12 3.13; do
        if found=$(interpreter $version) && "$found" -c '' 2>/dev/null; then
            python "$found" ".venv-$version"
        else
            echo "no Python $version here: left out"
        fi
    done
    ;;
*)
    echo "usage: scripts/test.sh [rust | loom | python PYTHON | notebook]" >&2
    exit 2
    ;;
esac
