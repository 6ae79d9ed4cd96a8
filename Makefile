# make demo   set up, fetch the weights once, open the page on http://localhost:7860
# make test   the same set-up with the test tools, then all tests
# make lint   ruff and mypy
# make test-npu   the tests that need torch_npu, on an emulated Ascend runtime (needs gcc; tests/npu/emulator/README.md)
# Another Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHROMIUM := $(shell command -v chromium)
NODE := $(shell command -v node)

NPU := $(CURDIR)/.npu
# Operators run when they are called (TASK_QUEUE_ENABLE=0), as the emulated kernels live in Python.
NPU_ENVIRONMENT := PYTHONPATH=$(NPU)/site LD_LIBRARY_PATH=$(NPU)/lib TASK_QUEUE_ENABLE=0

.PHONY: demo test test-npu lint weights tools

demo: weights
	$(BIN)/python app.py

test: $(VENV)/dev weights tools
	@status=0; \
	$(if $(NODE),node --test tests/js/*.test.mjs || status=1;) \
	$(BIN)/python -m pytest $(if $(CHROMIUM),,--ignore=tests/browser) || status=1; \
	exit $$status

test-npu: $(VENV)/dev weights $(NPU)/lib/built
	$(NPU_ENVIRONMENT) $(BIN)/python -m pytest tests/npu

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

weights: $(VENV)/run
	$(BIN)/python -m specviz.models.fetch

# Without a browser or node their tests are left out, and said to be; with CI=true that is a failure.
tools:
	@for tool in $(if $(CHROMIUM),,chromium) $(if $(NODE),,node); do \
		echo "$$tool is not installed, so its tests are left out. On Debian: apt-get install chromium nodejs"; \
		[ "$$CI" != true ] || exit 1; \
	done

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
		{ echo "SpecViz needs Python 3.11, 3.12 or 3.13; $(PYTHON) is not. Name one: make demo PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/run: requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	@touch $@

$(VENV)/dev: requirements-dev.txt $(VENV)/run
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# torch_npu lies beside the environment, never in it: where CANN is missing it would break `import torch`.
$(NPU)/site/fetched: requirements-npu.txt | $(VENV)/run
	@rm -rf $(NPU)/site
	$(BIN)/python -m pip install --disable-pip-version-check --no-deps --target $(NPU)/site $$(grep '^torch-npu==' requirements-npu.txt) || \
		{ echo "The torch-npu wheel could not be fetched, so the NPU path cannot be tested."; exit 1; }
	@touch $@

$(NPU)/lib/built: $(NPU)/site/fetched tests/npu/emulator/build.py tests/npu/emulator/fakecann.c
	TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONPATH=$(NPU)/site $(BIN)/python tests/npu/emulator/build.py $(NPU)/lib
	@touch $@
