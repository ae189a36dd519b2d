#!/usr/bin/env bash
# Plants mutants with cargo-mutants and compares what lives with tests/mutants/accepted.txt. Run by hand: all of them take hours.
#   scripts/mutants.sh [core|log|term ...] [--shard K/N] [any other option of cargo-mutants]
# Fails where a mutant lives that is not accepted, or one is found that is. Results of each area are in target/mutants/AREA.
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
if [ "$(cargo mutants --version 2>/dev/null)" != "cargo-mutants $VERSION" ]; then
    cargo install --quiet --locked "cargo-mutants@$VERSION"
fi

failed=0
for area in "${areas[@]}"; do
    echo "== mutants of $area"
    tests=(--lib)
    case $area in
    # all but the slow ones
    core) tests+=(--test drain --test exact --test kinds --test message --test messages --test timers --test tracer) ;;
    *) tests+=(--tests) ;;
    esac
    out=target/mutants/$area
    mkdir -p "$out"
    # it says by its status that mutants live, or that tests fail without any
    status=0
    nice cargo mutants --package "inviso-$area" --output "$out" --no-times --jobs 1 "$@" "${tests[@]/#/--cargo-test-arg=}" || status=$?
    case $status in
    0 | 2 | 3)
        cargo mutants --list --package "inviso-$area" >"$out/mutants.out/all.txt"
        python3 tests/mutants/check.py "$out/mutants.out" || failed=1
        ;;
    *) exit "$status" ;;
    esac
done
exit $failed
