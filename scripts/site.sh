#!/usr/bin/env bash
# site.sh PYTHON: builds the site in target/site, and checks its links. A warning of Sphinx is an error. Only the packages
# that pip installs come from the network.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/ready.sh "$1" .venv-docs '.[docs]'
rm -rf target/site docs/_api # pages of removed names
.venv-docs/bin/python -m sphinx -b html -c docs/site -d target/site-cache --nitpicky --fail-on-warning --keep-going --quiet . target/site
.venv-docs/bin/python scripts/check_site.py target/site
echo "== target/site/index.html"
