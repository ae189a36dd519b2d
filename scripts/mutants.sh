#!/usr/bin/env bash
# Plants mutants with cargo-mutants and compares the live ones with tests/mutants/accepted.txt. Run it by hand: all take hours.
#   scripts/mutants.sh [core|log|term ...] [--shard K/N] [--in-place] [any other option of cargo-mutants]
# Fails if a mutant lives that is not accepted, or if an accepted one is found. The results of each area are in
# target/mutants.out/AREA.
#
# Each mutant meets the quick unit tests first; those that live through them meet the slow ones and the other tests too.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=27.1.0
export CARGO_TERM_COLOR=never PROPTEST_CASES="${PROPTEST_CASES:-64}"

areas=()
while [[ ${1:-} =~ ^(core|log|term)$ ]]; do
    areas+=("$1")
    shift
done
[ ${#areas[@]} != 0 ] || areas=(core log term)
place=()
[[ " $* " != *" --in-place "* ]] || place=(--in-place)
# cargo-mutants would add these files to those of its configuration
config=()
if [[ " $* " =~ \ (-f|--file)[\ =] ]]; then
    mkdir -p target
    sed '/^examine_globs = \[/,/^\]/d' .cargo/mutants.toml >target/mutants.toml
    config=(--config "$PWD/target/mutants.toml")
fi
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $VERSION" ]; then
    cargo install --quiet --locked "cargo-mutants@$VERSION"
fi

# plant FOLDER [option of cargo-mutants ...]: its status tells whether mutants live; it exits if tests fail without mutants.
plant() {
    local out=$1 status=0
    shift
    mkdir -p "$out"
    nice cargo mutants "${config[@]}" --package "inviso-$area" --output "$out" --no-times "$@" || status=$?
    case $status in
    0 | 2 | 3) ;;
    *) exit "$status" ;;
    esac
}

failed=0
for area in "${areas[@]}"; do
    out=target/mutants.out/$area
    rm -rf "$out"
    echo "== mutants of $area: unit tests"
    plant "$out/unit" "$@" --cargo-arg=--lib -- -- --skip=stress
    case $area in
    # all tests but the slow ones
    core) tests=(--lib --test drain --test exact --test message --test messages --test tracer) ;;
    *) tests=(--lib --tests) ;;
    esac
    mapfile -t lived < <(sed 's/[][\.*^$+?(){}|]/\\&/g; s/.*/^&$/' "$out/unit/mutants.out/missed.txt")
    if [ ${#lived[@]} != 0 ]; then
        echo "== mutants of $area: all tests"
        plant "$out/all" "${place[@]}" "${lived[@]/#/--re=}" "${tests[@]/#/--cargo-arg=}"
    fi
    cargo mutants "${config[@]}" --list --package "inviso-$area" >"$out/all.txt"
    python3 tests/mutants/check.py "$out" || failed=1
done
exit $failed
