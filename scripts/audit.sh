#!/usr/bin/env bash
# audit.sh: licences, sources and known faults of the crates and packages that this one uses; the workflow of the public CI.
#   scripts/audit.sh            everything
#   scripts/audit.sh --offline  without the databases of known faults, which come from the network
set -euo pipefail
cd "$(dirname "$0")/.."
offline=${1:-} PYTHON=${PYTHON:-python3}
scripts/ready.sh "$PYTHON" --check
cargo deny --version >/dev/null 2>&1 || {
    echo "inviso: cargo-deny is missing: cargo install --locked cargo-deny" >&2
    exit 1
}
"$PYTHON" -m venv .venv-audit
.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check 'pip>=25.1'
.venv-audit/bin/python -m pip install --quiet --disable-pip-version-check --group audit

echo "== crates: licences, sources${offline:+ (their known faults are left out)}"
checks=(bans licenses sources)
[ -n "$offline" ] || checks+=(advisories)
# The fuzz targets are a workspace of their own, and no part of a release.
cargo deny --locked ${offline:+--offline} check "${checks[@]}"

if [ -z "$offline" ]; then
    echo "== packages of the extras: known faults"
    mkdir -p target
    .venv-audit/bin/python - >target/extras.txt <<'END'
import tomllib

extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print(*sorted({requirement for requirements in extras.values() for requirement in requirements}), sep="\n")
END
    .venv-audit/bin/python -m pip_audit --requirement target/extras.txt --progress-spinner off
fi

echo "== the workflow"
.venv-audit/bin/zizmor --quiet --strict-collection --persona pedantic ${offline:+--offline} .github/workflows
.venv-audit/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
