# The only spelling of commands; .ci/run calls `make test`. `make help` lists them.
PYTHON ?= python3
HOURS ?= 0.17

.PHONY: demo cluster-demo test rust loom mutants fuzz python real notebook docs stress chaos soak bench dist audit format help

demo:            ## build, and profile a real program
	@scripts/ready.sh $(PYTHON) .venv .
	@scripts/demo.sh

cluster-demo:    ## build, and trace a service of four processes together
	@scripts/ready.sh $(PYTHON) .venv .
	@scripts/cluster-demo.sh

test:            ## all tests
	@PYTHON=$(PYTHON) scripts/test.sh

rust:            ## format, lints and tests of the Rust crates
	@scripts/test.sh rust

loom:            ## models, and the bugs that they must find
	@scripts/test.sh loom

mutants:         ## hours: bugs that the tests must find, in part: make mutants MUTANTS="core --shard 0/6"
	@scripts/mutants.sh $(MUTANTS)

fuzz:            ## what reads bytes of strangers, a minute each: make fuzz INVISO_FUZZ_SECONDS=3600
	@PYTHON=$(PYTHON) scripts/test.sh fuzz

python:          ## tests under one interpreter: make python PYTHON=python3.13
	@scripts/test.sh python $(PYTHON)

real:            ## real programs under each tool: make real REAL=long PYTHONS=python3.14
	@PYTHON=$(PYTHON) REAL=$(REAL) scripts/test.sh real $(PYTHONS)

notebook:        ## run the notebooks
	@PYTHON=$(PYTHON) scripts/test.sh notebook

docs:            ## the site, in target/site: pages, notebooks, API reference; checks all links
	@scripts/site.sh $(PYTHON)

stress:          ## ten minutes of threads that call while sessions come and go
	@scripts/ready.sh $(PYTHON) .venv
	@.venv/bin/python -m tests.python.stress --seconds 600

chaos:           ## ten minutes of agents and programs that are killed, stopped, parted: make chaos CHAOS='--seed 7'
	@scripts/ready.sh $(PYTHON) .venv
	@.venv/bin/python -m tests.python.chaos --seconds 600 $(CHAOS)

soak:            ## a service whose memory, descriptors, threads and processes must stay flat: make soak HOURS=8 SOAK='--seed 7'
	@scripts/ready.sh $(PYTHON) .venv
	@.venv/bin/python -m tests.python.soak --hours $(HOURS) $(SOAK)

bench:           ## what tracing costs, beside its limits and peers: make bench BENCH=--quick
	@scripts/ready.sh $(PYTHON) .venv
	-@.venv/bin/python -m pip install --quiet --disable-pip-version-check -r benches/python/requirements.txt
	@.venv/bin/python -m benches.python $(BENCH)

dist:            ## a release in target/dist: sdist, wheels, checks; make dist PYTHONS="3.12 3.13"
	@PYTHON=$(PYTHON) scripts/dist.sh

audit:           ## licences, sources and known faults of what is used; without a network: make audit AUDIT=--offline
	@PYTHON=$(PYTHON) scripts/audit.sh $(AUDIT)

format:          ## the form of Rust and Python
	cargo fmt --all
	@.venv/bin/python -m ruff format --quiet .

help:
	@sed -n 's/^\([a-z-]*\):  *## /\1\t/p' Makefile
