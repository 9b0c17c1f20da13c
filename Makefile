# What an operator and a developer type. `make up` and `make test` work from a fresh clone; both need root.
.DEFAULT_GOAL := help
# The distribution's Python first: it is built with profile-guided optimization, one of pyenv is not, and takes a fifth more CPU.
PYTHON := $(shell for p in /usr/bin/python3 python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
OURS = $(or $(PYTHON),$(error Python 3.11 or newer is needed and not on PATH: install python3))
SETUP = $(OURS) -m deploy.setup
BIN := .venv/bin
# Compiled bytecode is kept whatever the shell says: without it, each start of a worker compiles 600 modules, for a second of CPU time.
unexport PYTHONDONTWRITEBYTECODE

help:  ## this list
	@grep -E '^[a-z-]+:.*  ## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*  ## /  make \1\t/' | expand -t 20

up:  ## start a node with Temporal, containerd and examples/hello.yaml (root); ARGS="…" goes to tempolet up
	@$(SETUP) --root-for "make up"
	@$(BIN)/tempolet up $(ARGS) examples/hello.yaml

down:  ## stop the node, leave nothing of it (root); ARGS=--purge removes its state too
	@test $$(id -u) = 0 || { echo "\`make down\` needs root, as \`make up\` does"; exit 1; }
	@test -x $(BIN)/tempolet || { echo "nothing to stop: no $(BIN), so 'make up' never ran here"; exit 1; }
	@$(BIN)/tempolet down $(ARGS)

test:  ## all tests, on real containerd and Temporal too, in sessions side by side (root); ARGS="…" goes to one pytest
	@$(SETUP) --dev --root-for "make test"
	@$(BIN)/python -m $(if $(strip $(ARGS)),pytest $(ARGS),tests.suite)

stress:  ## the tests that load a node for long, which `make test` leaves out (root); ARGS="…" goes to pytest
	@$(SETUP) --dev --root-for "make stress"
	@$(BIN)/python -m pytest -m stress $(ARGS)

test-machine:  ## the tests on a booted Debian 13 under QEMU: cgroup v2, systemd, reboots, power loss (root); ARGS="…" goes to pytest
	@$(SETUP) --dev --root-for "make test-machine"
	@$(BIN)/python -m tests.machine
	@$(BIN)/python -m pytest -m machine tests/machine $(ARGS)

chaos:  ## faults at every moment, on a model and on real containerd (root); 25 minutes; ARGS="--seed N --scenario NAME" plays one again
	@$(SETUP) --dev --root-for "make chaos"
	@$(BIN)/python -m tests.chaos $(ARGS)

lint:  ## style, types, import contracts, sizes and circles of folders
	@$(SETUP) --dev --without-parts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.folders

cluster:  ## a real control plane on loopback with a node of ours joined (root, Go or TEMPOLET_KUBE_BIN); prints its kubeconfig
	@$(SETUP) --dev --root-for "make cluster"
	@$(BIN)/python -m tests.cluster up $(ARGS)

cluster-down:  ## end that cluster, leave nothing of it (root)
	@$(SETUP) --dev --root-for "make cluster-down"
	@$(BIN)/python -m tests.cluster down $(ARGS)

conformance:  ## the official node and storage tests (root, Go or TEMPOLET_KUBE_BIN); FOCUS, PROCS=8, PEER=kubelet, ARGS=--without-temporal
	@$(SETUP) --dev --root-for "make conformance"
	@$(BIN)/python -m tests.cluster conformance $(if $(PEER),--peer $(PEER)) $(if $(PROCS),--procs $(PROCS)) \
		$(if $(FOCUS),--focus '$(FOCUS)') $(ARGS)

test-node-official:  ## the official node tests on a machine of their own (root, Go); FOCUS, PEER=kubelet, BOOTED=1 (under QEMU), ARGS="--skip …"
	@$(SETUP) --dev --root-for "make test-node-official"
	@$(BIN)/python -m $(if $(BOOTED),tests.machine.node_tests,tests.cluster.node_tests) $(if $(PEER),--peer $(PEER)) $(if $(FOCUS),--focus '$(FOCUS)') $(ARGS)

bench:  ## how fast, beside the raw CRI calls and the real kubelet (root); ARGS="…" goes to the benchmark
	@$(SETUP) --dev --root-for "make bench"
	@$(BIN)/python -m tests.bench $(ARGS)

record:  ## record the histories that tests/replay holds this code to (root; Go or TEMPOLET_KUBE_BIN for api-*); ARGS="-k LIFE" records one
	@$(SETUP) --dev --root-for "make record"
	@$(BIN)/python -m pytest tests/node/recordings/record_histories.py tests/cluster/pods/record_histories.py $(ARGS)

record-lives:  ## lead and keep the generated lives of the newest behaviour (tests/replay/lives); ARGS="--kind node --seeds 0:60"
	@$(SETUP) --dev --without-parts
	@$(BIN)/python -m tests.replay.lives $(ARGS)

screenshot:  ## take the pictures of the Temporal UI in docs/ (root, Chromium)
	@$(SETUP) --dev --root-for "make screenshot"
	@$(BIN)/python -m pytest tests/node/recordings/screenshot.py $(ARGS)

parts:  ## fetch containerd, runc, CNI plugins, nft and busybox where the machine lacks them
	@$(SETUP) --only-parts

wheel:  ## build the wheel, with install.sh and what it needs, into .build/dist
	@$(SETUP) --without-parts
	@$(BIN)/python -m deploy.wheel .build/dist

deb:  ## build the package for Debian 13 into .build/dist (root)
	@$(SETUP) --without-parts --root-for "make deb"
	@$(BIN)/python -m deploy.debian.package .build/dist

changelog:  ## gather the fragments of changes/ into CHANGELOG.md, for a release
	@$(OURS) -m deploy.changelog

stubs:  ## generate the gRPC stubs from upstream's .proto files
	@$(SETUP) --dev --without-parts
	@$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. proto/*/v1*/*.proto

LOCK := $(BIN)/pip-compile --quiet --upgrade --generate-hashes --allow-unsafe --strip-extras --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options

lock:  ## pin the newest packages that pyproject.toml allows, with hashes; Temporal's only if the program is upstream's
	@$(SETUP) --dev --without-parts
	@$(LOCK) --extra build --output-file requirements.txt pyproject.toml
	@$(LOCK) --extra build --extra dev --constraint requirements.txt --output-file requirements-dev.txt pyproject.toml
	@mkdir -p .build && rm -f .build/requirements-temporal.txt
	@$(LOCK) --output-file .build/requirements-temporal.txt requirements-temporal.in
	@$(BIN)/python -m deploy.temporal_release .build/requirements-temporal.txt requirements-temporal.txt

.PHONY: help up down test stress test-machine chaos lint cluster cluster-down conformance test-node-official bench record record-lives screenshot parts wheel deb changelog stubs lock
