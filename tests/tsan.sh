#!/usr/bin/env bash
# Runs inviso-core's tests under ThreadSanitizer. Needs a nightly toolchain.
#
# The crate's locks report their protected data to it (`sync::told`). It doesn't know fences: reports about memory that std's
# `Arc` frees after one are left out, and so are libtest's and std's own threads. `-v` shows the stacks.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(rustc -vV | sed -n 's/^host: //p')
log=$(mktemp)
suppressions=$(mktemp)
trap 'rm -f "$log" "$suppressions"' EXIT
printf '%s\n' 'race:test::run_test' 'race:test::event::CompletedTest' 'race:<test::' 'race:test::console' \
    'race:<alloc::sync::Arc' 'race:std::thread::lifecycle::Packet' >"$suppressions"
status=0
INVISO_FEW=1 CARGO_TARGET_DIR=target/tsan \
    RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer --cfg inviso_tsan --cfg crossbeam_sanitize_thread" \
    TSAN_OPTIONS="history_size=7 exitcode=66 suppressions=$suppressions" \
    cargo +nightly test --quiet --package inviso-core --target "$target" --no-fail-fast --lib --test '*' -- --test-threads 1 \
    >"$log" 2>&1 || status=$?
if [ "${1-}" = -v ]; then cat "$log"; fi
echo "ThreadSanitizer: $(grep -c 'WARNING: ThreadSanitizer' "$log" || true) reports; where:"
grep 'SUMMARY: ThreadSanitizer' "$log" | sed 's/.* in //' | sort | uniq -c | sort -rn || true
exit "$status"
