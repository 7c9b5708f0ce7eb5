# Needs make and Python 3.10 or newer; everything else goes into .venv.
#
#   make demo [DEVICE=cpu|opencl|interpreter]   train a small network
#   make demo-mpi [RANKS=2]                     the same in processes, over MPI
#   make test [ARGS='-k matmul']                every law, on a part of long tables
#   make test ARGS=--all-rows                   every test, as CI runs them
#   make cpus                                   some, with the code of older processors
#   make replay [ARGS='--ref COMMIT']           kernels beside those of the last release
#   make lint | types | docs | bench | wheel    see the recipes below
#   make site                                   the documentation, in build/site/html
#   make clean                                  remove what these have made
#
# PYTHON=/path/to/python chooses the interpreter that .venv is made with.

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check
JOBS ?= 2
# Hundreds of the tests start a process: the byte code that all import is written once.
export PYTHONDONTWRITEBYTECODE :=

ifdef PYTHON
PYTHONS := $(PYTHON)
else
PYTHONS := python3 python3.14 python3.13 python3.12 python3.11 python3.10 python
endif

.DEFAULT_GOAL := help
.PHONY: help demo demo-mpi test cpus replay lint format types docs site bench wheel clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.all
	$(RUN) examples/digits.py $(if $(DEVICE),--device $(DEVICE)) $(ARGS)

# The mpirun that the extra brought, else that of the machine. Without a terminal there
# is no bar to redraw: a process of MPI cannot see that, and is told by TERM.
RANKS ?= 2
demo-mpi: $(VENV)/.mpi
	@mpirun=$$(PATH="$(abspath $(VENV))/bin:$$PATH" command -v mpirun) || \
	  { echo "no mpirun: $(MISSING)" >&2; exit 1; }; \
	$(RUN) -c 'from mpi4py import MPI' || { echo "no MPI: $(MISSING)" >&2; exit 1; }; \
	test -t 1 || export TERM=dumb; \
	"$$mpirun" -n $(RANKS) --oversubscribe --allow-run-as-root \
	  $(RUN) examples/data_parallel.py $(ARGS)
MISSING := the extra ftrace[mpi] has brought no MPI for this machine; install Open MPI

test: $(VENV)/.test
	$(RUN) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

# Processors of fewer features than this one, and the tests of what their code does.
CPUS ?= x86-64 x86-64-v3
CPU_TESTS := $(addprefix tests/backends/llvm/,scalar/test_scalar_ops.py \
	emit/test_elementwise_kernels.py emit/test_reduction_kernels.py \
	contraction/test_contractions.py) \
	$(addprefix tests/laws/test_,primitive_laws.py minmax_signed_zeros.py) \
	$(addprefix tests/lower/,legalize/test_decomposition_accuracy.py \
	test_kernel_counts.py register_loops/test_register_loops.py) \
	$(addprefix tests/numpy/test_,cumulative.py power_edge_cases.py) \
	tests/lax/test_gather_scatter.py tests/nn/test_nn.py

cpus: $(VENV)/.test
	@for cpu in $(CPUS); do \
	  FTRACE_CPU=$$cpu $(RUN) -c 'from ftrace.backends.llvm.target import host_target; \
	    host_target()' 2>/dev/null || { echo "$$cpu: not on this machine"; continue; }; \
	  echo "code for $$cpu"; \
	  FTRACE_CPU=$$cpu $(RUN) -m pytest -q -n $(JOBS) --dist worksteal $(CPU_TESTS) \
	    -k 'not opencl and not interpreter-' $(ARGS) || exit 1; \
	done

replay: $(VENV)/.test
	$(RUN) -m tests.replay $(ARGS)

lint: $(VENV)/.dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

types: $(VENV)/.dev
	$(VENV)/bin/pyright --pythonpath $(RUN)
	$(RUN) -m pytest -q tests/surface/test_types.py $(ARGS)

docs: $(VENV)/.test
	$(RUN) -m pytest tests/docs $(ARGS)

# Warnings are errors: a link that leads nowhere, a docstring that Sphinx cannot read.
site: $(VENV)/.docs
	$(RUN) -m docs.site $(ARGS)

bench: $(VENV)/.all
	$(RUN) -m benchmarks $(ARGS)

wheel: $(VENV)/bin/python
	$(PIP) wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist examples/out *.egg-info
	rm -rf .hypothesis .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The extras an installation needs, one stamp each; all of them share one .venv.
$(VENV)/.all: EXTRAS := all,demo
$(VENV)/.mpi: EXTRAS := all,demo,mpi
$(VENV)/.test: EXTRAS := all,test
$(VENV)/.dev: EXTRAS := dev
$(VENV)/.docs: EXTRAS := all,docs

$(VENV)/.all $(VENV)/.mpi $(VENV)/.test $(VENV)/.dev $(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	@echo "installing ftrace[$(EXTRAS)] into $(VENV) (a minute or so)"
	@$(PIP) install --quiet --editable '.[$(EXTRAS)]'
	@touch $@

# The first Python that is new enough and can make environments. pip is brought up to
# date because the first releases of Python 3.10 came with one that cannot install
# this package editable.
define CHECK
import sys
if sys.version_info < (3, 10):
    sys.exit(f"Python {sys.version.split()[0]}: ftrace needs 3.10 or newer")
try:
    import ensurepip, venv
except ImportError:
    sys.exit("no venv module: on Debian and Ubuntu, apt install python3-venv")
endef
export CHECK

$(VENV)/bin/python:
	@for python in $(PYTHONS); do \
	  reason=$$("$$python" -c "$$CHECK" 2>&1) || \
	    { tried="$$tried  $$python: $$reason\n"; continue; }; \
	  echo "making $(VENV) with $$python"; \
	  "$$python" -m venv $(VENV) && $(PIP) install --quiet --upgrade pip && exit 0; \
	  rm -rf $(VENV); exit 1; \
	done; \
	printf "No suitable Python. Tried:\n$$tried" >&2; \
	echo "Name one with: make PYTHON=/path/to/python3" >&2; exit 1
