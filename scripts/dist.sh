#!/usr/bin/env bash
# dist.sh: a release in target/dist, from the last commit.
#   scripts/dist.sh                         sdist, wheels, checks, and each wheel that this machine can run in an environment of its own
#   scripts/dist.sh try WHEELS PYTHON ...   only the last: the wheels of a folder, under these interpreters
# All wheels are built from the unpacked sdist. PYTHONS are the versions; each is on PATH, or one of pyenv's.
# A wheel for glibc 2.28 is linked by zig, which also links for other processors and for musl. Rust needs its standard library for
# each target (rustup target add TARGET): a target without one is left out and named, and with DIST=all that is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/interpreter.sh
export CARGO_TERM_COLOR=never
out=$PWD/target/dist
PYTHON=${PYTHON:-python3} PYTHONS=${PYTHONS:-3.11 3.12 3.13 3.14 3.14t}
# target of Rust, and the oldest C library
TARGETS=(
    x86_64-unknown-linux-gnu=manylinux_2_28
    aarch64-unknown-linux-gnu=manylinux_2_28
    x86_64-unknown-linux-musl=musllinux_1_2
    aarch64-unknown-linux-musl=musllinux_1_2
)
# The tests of an sdist and of each wheel: sessions, counters, messages, a profile, terms, logs. Some seconds.
SHORT=(test_etf test_log test_match_calls test_scheduling test_tprof test_trace_functions test_trace_messages test_trace_sessions)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A new environment with pip that knows groups.
environment() { # python, folder, arguments of pip
    "$1" -m venv "$2"
    "$2/bin/python" -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
    [ $# = 2 ] || "$2/bin/python" -m pip install --quiet --disable-pip-version-check "${@:3}"
}

# What is installed works outside of the repository, without any other package, and passes the short tests.
try() { # python of an environment, folder with the tests
    local short=("${SHORT[@]/#/tests/python/}")
    (
        cd "$work"
        "$1" -c 'import inviso, importlib.metadata as m; assert inviso.__version__ == m.version("inviso")'
        "$1" -m inviso --version
        echo 'import json; json.loads("[1]")' >program.py
        "$1" -m inviso tprof -t call_count -p 'json.decoder:_:_' program.py 2>&1 | grep raw_decode >/dev/null
        "$1" -c '
import json, inviso
from inviso import trace
with trace.session_create("release") as session:
    session.process(inviso.self(), True, ["call", "return_to"])
    session.function(("json.decoder", "JSONDecoder.decode", "_"), True, ["local"])
    json.loads("[1]")
    tags = [message[2] for message in session.drain()]
assert tags == ["call", "return_to"], tags
'
    )
    "$1" -m pip install --quiet --disable-pip-version-check --group "$2/pyproject.toml:test-short"
    (cd "$2" && "$1" -m pytest -p no:cacheprovider "${short[@]/%/.py}")
}

# Each wheel of a folder that one of the interpreters takes, in an environment of its own.
try_wheels() { # folder of wheels, folder with the tests, interpreters
    local python
    for python in "${@:3}"; do
        echo "== $("$python" -VV): a wheel in an environment of its own"
        rm -rf "$work/own"
        environment "$python" "$work/own" --no-index --find-links "$1" --only-binary :all: inviso
        try "$work/own/bin/python" "$2"
    done
}

sdist() {
    local url version
    rm -rf "$out"
    echo "== sdist"
    git clone --quiet . "$work/repository"
    # README is the page of the package, too, where no folder is beside it.
    url=$(sed -n 's/^Source = "\(.*\)"/\1/p' pyproject.toml) version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
    sed -i -E "s#\]\(((docs|notebooks)/[^)]*|[A-Z]+\.md[^)]*)\)#](${url}/blob/v$version/\1)#g" "$work/repository/README.md"
    (cd "$work/repository" && "${tools[@]}" maturin sdist --out "$out")
    tar -xzf "$out"/inviso-*.tar.gz -C "$work"
    source=$(echo "$work"/inviso-*)
    echo "== sdist: built as pip builds it, and tested from its own content"
    CARGO_TARGET_DIR=$PWD/target/dist-sdist CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
        environment "$PYTHON" "$work/sdist" "$out"/inviso-*.tar.gz
    try "$work/sdist/bin/python" "$source"
}

# The unwinder of a target's C library. At the interpreter's end glibc unwinds threads by it, also through functions of the wheel.
# zig links another one into the wheel if it finds none, and the two together crash. musl doesn't unwind such threads.
unwinder() { # target
    local compiler=cc library
    case $1 in *-musl) return ;; esac
    [ "$1" = "$(rustc --print host-tuple)" ] || compiler=${1%%-*}-linux-gnu-gcc
    library=$("$compiler" -print-file-name=libgcc_s.so.1 2>/dev/null) && [ -e "$library" ] && echo "link-arg=$library"
}

wheels() {
    local pair target version python interpreters unwinder left=()
    for version in $PYTHONS; do
        if python=$(interpreter "$version"); then here+=("$python"); else echo "== no Python $version here: left out" >&2; fi
    done
    for pair in "${TARGETS[@]}"; do
        target=${pair%=*}
        if ! [ -e "$(rustc --print target-libdir --target "$target")" ]; then
            echo "== no standard library of Rust for $target here (rustup target add $target): no wheels for it" >&2
            left+=("$target")
            continue
        fi
        if ! unwinder=$(unwinder "$target"); then
            echo "== no libgcc_s.so.1 for $target here (Debian: apt-get install gcc-${target%%-*}-linux-gnu): no wheels for it" >&2
            left+=("$target")
            continue
        fi
        echo "== wheels: $target, ${pair#*=}"
        interpreters=("${here[@]}")
        # Of others maturin knows what it has to know.
        [ "$target" = "$(rustc --print host-tuple)" ] || read -ra interpreters <<<"${PYTHONS//3./python3.}"
        (cd "$source" && CARGO_TARGET_DIR=$out/../dist-build "${tools[@]}" maturin build --release --locked --zig --target "$target" \
            --compatibility "${pair#*=}" --interpreter "${interpreters[@]}" --out "$out" \
            ${unwinder:+-- -C "$unwinder"})
    done
    [ "${DIST-}" != all ] || [ ${#left[@]} = 0 ]
}

if [ "${1-}" = try ]; then
    try_wheels "$2" . "${@:3}"
    exit
fi
scripts/ready.sh "$PYTHON" --check
environment "$PYTHON" .venv-dist --group release
tools=("$PWD/.venv-dist/bin/python" -m) here=()
export PATH=$PWD/.venv-dist/bin:$PATH # maturin looks for zig there
sdist
wheels
echo "== checks"
"${tools[@]}" twine check --strict "$out"/*
.venv-dist/bin/python scripts/check_dist.py "$out"
try_wheels "$out" "$source" "${here[@]}"
echo "== crates: packed and built as for their registry"
cargo publish --dry-run --quiet --locked --target-dir target/dist-crates -p inviso-term -p inviso-match -p inviso-core
(cd "$out" && sha256sum -- *)
