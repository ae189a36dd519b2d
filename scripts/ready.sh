#!/usr/bin/env bash
# ready.sh PYTHON VENV: makes the virtual environment VENV of PYTHON with this package and what its tests need.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2

missing() {
    echo "inviso: $1" >&2
    exit 1
}
command -v cargo >/dev/null || missing "Rust is missing: install rustup's stable toolchain (1.88 or later), so that 'cargo' is found"
command -v cc >/dev/null || missing "a linker is missing: install gcc (Debian: apt-get install gcc)"
command -v "$python" >/dev/null || missing "$python is missing: install Python 3.11 or later (Debian: apt-get install python3 python3-venv)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || missing "$python is too old: Python 3.11 or later is needed"
if [ ! -x "$venv/bin/python" ]; then
    "$python" -m venv "$venv" || missing "$python can't make a virtual environment (Debian: apt-get install python3-venv)"
fi
version=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("SOABI"))')
CARGO_TARGET_DIR="$PWD/target/$version" "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${3:-.[test]}"
