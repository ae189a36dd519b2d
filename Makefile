# The only spelling of commands; .ci/run calls `make test`.
PYTHON ?= python3

.PHONY: demo test rust loom python notebook format

demo:            ## build, and profile a real program
	@scripts/ready.sh $(PYTHON) .venv .
	@scripts/demo.sh

test:            ## all tests
	@PYTHON=$(PYTHON) scripts/test.sh

rust:            ## format, lints and tests of the Rust crates
	@scripts/test.sh rust

loom:            ## models, and the bugs that they must find
	@scripts/test.sh loom

python:          ## tests under one interpreter: make python PYTHON=python3.13
	@scripts/test.sh python $(PYTHON)

notebook:        ## run the notebooks
	@PYTHON=$(PYTHON) scripts/test.sh notebook

format:
	cargo fmt --all
