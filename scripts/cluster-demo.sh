#!/usr/bin/env bash
# Runs a service of four processes, a web process and three workers, traces all of them together for five seconds, and shows the
# beginning of the merged log.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
work=$(mktemp -d)
web=
# the web process ends first: it sends requests to the workers
trap '[ -z "$web" ] || { kill "$web" && wait "$web"; } 2>/dev/null || true; kill $(jobs -p) 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
export INVISO_DIR="$work/sockets" PYTHONPATH="$PWD/demo"
show() { echo "\$ $*"; }

for n in 1 2 3; do
    show "inviso run --node worker-$n -m shop.worker worker-$n.sock &"
    inviso run --node "worker-$n" --log-dir "$work/inviso-logs" -m shop.worker "$work/worker-$n.sock" &
done
for n in 1 2 3; do
    until [ -S "$work/worker-$n.sock" ]; do sleep 0.05; done
done
show "inviso run --node web -m shop.web worker-1.sock worker-2.sock worker-3.sock &"
inviso run --node web --log-dir "$work/inviso-logs" -m shop.web "$work"/worker-{1,2,3}.sock &
web=$!
until inviso nodes web >/dev/null 2>&1; do sleep 0.05; done

show "inviso start 'worker-*' web -p 'shop.**' --messages --tokens --for 5s -o logs"
inviso start 'worker-*' web -p 'shop.**' --messages --tokens --for 5s -o "$work/logs"
show "inviso merge logs -o all.log"
inviso merge "$work/logs" -o "$work/all.log"
show "inviso log print all.log | head -25"
inviso log print "$work/all.log" | head -25
