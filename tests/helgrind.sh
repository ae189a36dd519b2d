#!/usr/bin/env bash
# Runs inviso-core's thread tests under valgrind.
#
#   tests/helgrind.sh           memcheck, short form: no invalid access, nothing uninitialised, nothing leaked
#   tests/helgrind.sh --races   helgrind as well; prints the places of its races, for a reader to judge
#
# helgrind and drd know pthread's locks, but no futexes and no atomics. So they report a race for all data that std's Mutex
# guards or an atomic publishes: hundreds of places, none of which fails this script. The loom models (tests/loom.sh) check
# the orderings. memcheck checks the memory itself: pages of rings, retired snapshots, cells.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }
limit="${INVISO_VALGRIND_SECONDS:-600}" # for one run

# binary target...: prints the path of a test binary
binary() {
    INVISO_FEW=1 cargo test --quiet --package inviso-core "$@" --no-run --message-format json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}
exact=$(binary --test exact)
unit=$(binary --lib)
memcheck=(valgrind --quiet --tool=memcheck --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite --show-leak-kinds=definite
    --num-callers=20)

timeout "$limit" "${memcheck[@]}" "$exact" --test-threads 1
# the deterministic tests of the modules with unsafe code; the stress test of the ring takes too long here
timeout "$limit" "${memcheck[@]}" "$unit" --test-threads 1 --skip stress --skip slow ring:: cells:: segments:: section::

if [ "${1-}" = --races ]; then
    log=$(mktemp)
    timeout "$limit" valgrind --tool=helgrind --history-level=none --num-callers=12 "$exact" --test-threads 1 >"$log" 2>&1 || true
    echo "helgrind: $(grep -c 'Possible data race' "$log") places; the innermost frames that are not atomics:"
    grep -A1 'Possible data race' "$log" | grep -oE 'at 0x[0-9A-F]+: .*' | sed 's/.*: //' | grep -v 'sync::atomic' |
        sort | uniq -c | sort -rn | head -n 25
    rm -f "$log"
fi
