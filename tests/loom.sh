#!/usr/bin/env bash
# Runs the loom models of inviso-core, then plants each mutant that a table in its sources lists and demands that the
# model named there fails.
#
#   tests/loom.sh                    everything, short form
#   INVISO_LOOM=long tests/loom.sh   more preemptions in the green run
#   tests/loom.sh name...            only these mutants
#
# A mutant is one `--cfg inviso_mutant="name"` on the crate itself, so its dependencies are built once.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg loom --cfg crossbeam_loom ${RUSTFLAGS-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
# small and quick to build beats quick to run
export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_TEST_INCREMENTAL=false CARGO_PROFILE_DEV_INCREMENTAL=false
export RUST_BACKTRACE=0
limit="${INVISO_LOOM_SECONDS:-3600}" # for one run
modules=rust/core/src

# build [mutant]: prints the path of the test binary
build() {
    cargo rustc --quiet --package inviso-core --lib --profile test --message-format json -- ${1:+--cfg "inviso_mutant=\"$1\""} |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# Every file that has a table with this head lists mutants; together they must list what the code knows.
head='^//! | mutant | what is planted | found by |$'
tables=$(grep -RlE --include '*.rs' "${head//|/\\|}" "$modules" | sort)
# shellcheck disable=SC2086
rows=$(grep -hE '^//! \| `[a-z_]+` \| .* \| `[a-z_:]+` \|$' $tables)
listed=$(sed 's/^\/\/! | `\([a-z_]*\)`.*/\1/' <<<"$rows")
planted=$(grep -RhoE --include '*.rs' '(mutant!\(|inviso_mutant = )"[a-z_]+"' "$modules" | sed 's/.*"\(.*\)"/\1/' | sort -u)
if ! diff <(sort <<<"$listed") - <<<"$planted" >&2; then
    echo "the tables (<) and the code (>) know different mutants" >&2
    exit 1
fi

if [ $# -eq 0 ]; then
    green=$(build)
    [ -x "$green" ] || { echo "no test binary" >&2; exit 1; }
    timeout "$limit" "$green" models:: --nocapture --test-threads "$(nproc)"
    # shellcheck disable=SC2086
    set -- $listed
fi

survivors=()
for mutant in "$@"; do
    model=$(sed -n "s/^..! | \`$mutant\` |.*| \`\([a-z_:]*\)\` |\$/\1/p" <<<"$rows")
    [ -n "$model" ] || { echo "no mutant is called $mutant" >&2; exit 1; }
    binary=$(build "$mutant")
    [ -x "$binary" ] || { echo "mutant $mutant doesn't build" >&2; exit 1; }
    log="$CARGO_TARGET_DIR/mutant-$mutant.log"
    # The group swallows what the shell says of an abort: a panic while panicking is a finding as well.
    { INVISO_LOOM=short timeout "$limit" "$binary" "models::$model" >"$log" 2>&1; } 2>/dev/null || true
    if ! grep -q '^running 1 test$' "$log"; then
        echo "$mutant is to be found by $model, and that isn't one model" >&2
        exit 1
    elif grep -q 'panicked at' "$log"; then
        echo "found    $mutant by $model: $(grep -A1 -m1 'panicked at' "$log" | tail -n 1 | cut -c 1-100)"
    else
        survivors+=("$mutant")
        echo "SURVIVED $mutant: $model is green"
    fi
done

if [ ${#survivors[@]} -gt 0 ]; then
    echo "no model fails with: ${survivors[*]}" >&2
    exit 1
fi
echo "each of $# mutants was found"
