#!/usr/bin/env bash
# Profiles a real program, Python's own disassembler at work on the argparse module, and shows the functions that took its time.
set -euo pipefail
cd "$(dirname "$0")/.."
source=$(.venv/bin/python -c 'import argparse; print(argparse.__file__)')
echo "== inviso tprof -t call_time --limit 15 -m dis $source >/dev/null"
.venv/bin/inviso tprof -t call_time --limit 15 -m dis "$source" >/dev/null
