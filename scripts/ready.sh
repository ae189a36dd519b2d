#!/usr/bin/env bash
# ready.sh PYTHON VENV [WHAT]: makes the virtual environment VENV of PYTHON and installs WHAT there. The default is this package
# with the needs of its tests: the dependency groups test and test-gil, or test alone for a free-threaded Python. +EXTRA is the
# default with EXTRA.
# The wheel stays in target/wheels. With INVISO_WHEEL=built the existing wheel is installed, and nothing is built.
# ready.sh PYTHON --check: only reports missing tools.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2 what=${3:-}
rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

missing() {
    echo "inviso: $1" >&2
    exit 1
}
command -v cargo >/dev/null || missing "Rust is missing: install rustup's stable toolchain ($rust or later), so that 'cargo' is found"
cargo=$(cargo --version 2>/dev/null | cut -d ' ' -f 2) || missing "'cargo' doesn't run: install rustup's stable toolchain ($rust or later)"
[ "$(printf '%s\n' "$rust" "$cargo" | sort -V | head -n 1)" = "$rust" ] || missing "Rust $cargo is too old: $rust or later is needed (rustup update stable)"
command -v cc >/dev/null || missing "a linker is missing: install gcc (Debian: apt-get install gcc libc6-dev)"
command -v "$python" >/dev/null || missing "$python is missing: install Python 3.11 or later (Debian: apt-get install python3 python3-venv), or name one: make … PYTHON=python3.12"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing "$python is not Python 3.11 or later; name one that is: make … PYTHON=python3.12"

[ "$venv" != --check ] || exit 0

# The name of a build of Python. It also names the folders of cargo, unless CARGO_FOLDER names one.
build() {
    "$1" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))' 2>/dev/null
}
version=$(build "$python")
if [ "$(build "$venv/bin/python" || true)" != "$version" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    if ! "$python" -m venv --clear "$venv"; then
        rm -rf "$venv"
        missing "$python can't make a virtual environment (Debian: apt-get install python3-venv)"
    fi
fi
groups=()
case $what in
'' | +*)
    groups=(--group test)
    case $version in cpython-*t-*) ;; *) groups+=(--group test-gil) ;; esac
    what=.${what:+[${what#+}]}
    ;;
esac
pip() {
    "$venv/bin/python" -m pip --quiet --disable-pip-version-check "$@"
}
wheels=$PWD/target/wheels/$version
if [ "${INVISO_WHEEL-}" != built ]; then
    echo "== building for $("$venv/bin/python" -V) in $venv"
    rm -rf "$wheels"
    CARGO_TARGET_DIR="$PWD/target/${CARGO_FOLDER:-$version}" pip wheel --no-deps --wheel-dir "$wheels" .
fi
wheel=$(ls "$wheels"/*.whl)
pip install --force-reinstall --no-deps "$wheel"
pip install 'pip>=25.1' # Python 3.11 and 3.12 bring an older one, which knows no groups
pip install "$wheel${what#.}" "${groups[@]}"
