#!/usr/bin/env bash
# Runs the loom models of inviso-core, then plants each mutant of the tables in its sources. The model that the table
# names has to fail.
#
#   tests/loom.sh                    everything, short form
#   INVISO_LOOM=long tests/loom.sh   more preemptions in the green run
#   tests/loom.sh name...            only these mutants
#
# INVISO_MUTANT chooses a mutant when the models run, so all mutants share one build.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg loom --cfg crossbeam_loom ${RUSTFLAGS-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=0 CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_TEST_INCREMENTAL=false CARGO_PROFILE_DEV_INCREMENTAL=false
export RUST_BACKTRACE=0
limit="${INVISO_LOOM_SECONDS:-3600}" # for one run
modules=rust/core/src

# Every file that has a table with this head lists mutants. Together they must list all mutants of the code.
head='^//! | mutant | what is planted | found by |$'
tables=$(grep -RlE --include '*.rs' "${head//|/\\|}" "$modules" | sort)
# shellcheck disable=SC2086
rows=$(grep -hE '^//! \| `[a-z_]+` \| .* \| `[a-z_:]+` \|$' $tables)
listed=$(sed 's/^\/\/! | `\([a-z_]*\)`.*/\1/' <<<"$rows")
planted=$(grep -RhoE --include '*.rs' '(mutant!\(|Edge\([A-Za-z]+, )"[a-z_]+"' "$modules" | sed 's/.*"\(.*\)"/\1/' | sort -u)
if ! diff <(sort <<<"$listed") - <<<"$planted" >&2; then
    echo "the tables (<) and the code (>) know different mutants" >&2
    exit 1
fi

binary=$(cargo rustc --quiet --package inviso-core --lib --profile test --message-format json |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[ -x "$binary" ] || { echo "no test binary" >&2; exit 1; }

if [ $# -eq 0 ]; then
    timeout "$limit" "$binary" models:: --nocapture --test-threads "$(nproc)"
    # shellcheck disable=SC2086
    set -- $listed
fi

# plant mutant: prints one line that tells whether its model finds it
plant() {
    local mutant=$1 model log="$CARGO_TARGET_DIR/mutant-$1.log"
    model=$(sed -n "s/^..! | \`$mutant\` |.*| \`\([a-z_:]*\)\` |\$/\1/p" <<<"$rows")
    [ -n "$model" ] || { echo "no mutant is called $mutant"; return; }
    # The group hides the shell's message about an abort: a panic while panicking is a finding as well.
    { INVISO_MUTANT=$mutant INVISO_LOOM=short timeout "$limit" "$binary" "models::$model" >"$log" 2>&1; } 2>/dev/null || true
    if ! grep -q '^running 1 test$' "$log"; then
        echo "WRONG    $mutant is to be found by $model, and that isn't one model"
    elif grep -q 'panicked at' "$log"; then
        echo "found    $mutant by $model: $(grep -A1 -m1 'panicked at' "$log" | tail -n 1 | cut -c 1-100)"
    else
        echo "SURVIVED $mutant: $model is green"
    fi
}
export -f plant
export rows binary limit

found=$(printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'plant {}')
sort <<<"$found"
if [ "$(grep -c '^found ' <<<"$found")" -ne $# ]; then
    echo "not every one of $# mutants was found" >&2
    exit 1
fi
echo "each of $# mutants was found"
