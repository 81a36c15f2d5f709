# The two commands of the README, and what continuous integration adds to them.

PYTHON ?= python3
VENV ?= .venv
# One worker more than cores: tests that wait for a server or a program leave theirs to the others.
# Each begins with tests that follow one another, so that a module's fixtures are made once.
PYTEST ?= -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal
BIN = $(VENV)/bin
CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/mtkit
WHEELS = $(CACHE)/wheels/$(shell uname -m)
LLAMA = llama-cpp-python==0.3.36
TESTED = .[test,generate]
PIP = $(BIN)/python -m pip --quiet --disable-pip-version-check

# Runs what is silent for minutes and says how long it takes: all the time on a terminal, each ten
# seconds elsewhere.
watched = { $(1) & pid=$$!; n=0; while kill -0 $$pid 2>/dev/null; do sleep 1; n=$$((n + 1)); \
  if [ -t 2 ]; then printf '\r  %s s ' $$n >&2; elif [ $$((n % 10)) = 0 ]; then echo "  $$n s" >&2; fi; \
  done; if [ -t 2 ]; then printf '\r\033[K' >&2; fi; wait $$pid; }

.PHONY: demo test lint format fuzz fuzz-exact fuzz-files fuzz-workbench fuzz-truncations fuzz-models fuzz-templates \
  fuzz-histories fuzz-answers fuzz-routes kills fuzz-native matrix docs screens sanitize sanitize-threads wheel native bench clean

## Show the main job on the files that ship with mtkit.
demo: $(VENV)/installed
	@$(BIN)/python tools/demo.py

## Install the test extras and pass the whole suite.
test: $(VENV)/tests
	$(BIN)/pytest $(PYTEST)

## Style and types of Python and C++, spelling of all.
lint: $(VENV)/lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell *.md docs mtkit native tools
	$(BIN)/clang-format --dry-run -Werror native/*/*.?pp

## What a formatter can mend of style.
format: $(VENV)/lint
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i native/*/*.?pp

## A million generated cases against tokenizers; see tools/fuzz_exact.py.
fuzz-exact: $(VENV)/tests native
	$(BIN)/python -m tools.fuzz_exact $(FUZZ)

## Mutants of files of every format, used as people use files; see tools/fuzz_files.py.
fuzz-files: $(VENV)/tests native
	$(BIN)/python -m tools.fuzz_files $(FUZZ)

## Mutants of what the GGUF workbench reads: files with tensors, headers, manifests, servers.
fuzz-workbench: $(VENV)/tests native
	for kind in gguf safetensors folders manifests records answers; do \
	  $(BIN)/python -m tools.fuzz_files --kind $$kind --cases 200000 $(FUZZ) || exit 1; done

## Ten thousand truncations of a file that is in use; see tools/truncations.py.
fuzz-truncations: $(VENV)/tests native
	$(BIN)/python -m tools.truncations $(FUZZ)

## The mutants of fuzz-files and fuzz-workbench.
fuzz: fuzz-files fuzz-workbench

## A thousand hostile model files given to generate and chat; see tools/fuzz_models.py.
fuzz-models: $(VENV)/tests
	$(BIN)/python -m tools.fuzz_models $(FUZZ)

## Hostile chat templates, each measured; see tools/fuzz_templates.py.
fuzz-templates: $(VENV)/tests
	$(BIN)/python -m tools.fuzz_templates $(FUZZ)

## Long sessions of agents, in the chat templates of an archive; see tools/fuzz_histories.py.
fuzz-histories: $(VENV)/tests
	$(BIN)/python -m tools.fuzz_histories --templates $(MTKIT_SHARED)/templates.tar.xz $(FUZZ)

## Hostile answers in the published chat templates, whole and in pieces; see tools/fuzz_answers.py.
fuzz-answers: $(VENV)/tests
	$(BIN)/python -m tools.fuzz_answers $(FUZZ)

## Hostile requests on all routes of a server; see tools/fuzz_routes.py.
fuzz-routes: $(VENV)/tests
	$(BIN)/python -m tools.fuzz_routes --hostile $(FUZZ)

## Signals at any moment to all commands that write; see tools/kills.py.
kills: $(VENV)/tests
	$(BIN)/python -m tools.kills $(FUZZ)

## Every stored tokenizer in every format, run by the format's own library; see tools/matrix.py.
matrix: $(VENV)/tests native
	$(BIN)/python -m tools.matrix $(MATRIX)

## Measure mtkit beside other libraries and write docs/performance.md; see tools/performance.py.
bench: $(VENV)/bench native
	$(BIN)/python -m tools.performance $(BENCH)

## Write the documents that are made from the code, and all as a site: build/site/.
docs: $(VENV)/docs
	$(BIN)/python -m tools.generate
	$(BIN)/python -m tools.site

## Draw what commands show on a terminal: docs/screens/.
screens: $(VENV)/tests
	$(BIN)/python -m tools.screens

## The engine's tests with address and undefined-behavior sanitizers.
sanitize: $(VENV)/tests $(VENV)/lint
	$(BIN)/python -m tools.native --sanitize=address

## The tests of threads with ThreadSanitizer.
sanitize-threads: $(VENV)/tests $(VENV)/lint
	$(BIN)/python -m tools.native --sanitize=thread

## The core's fuzz targets with libFuzzer and sanitizers (Clang); see tools/fuzz_native.py.
fuzz-native: $(VENV)/tests native
	$(BIN)/python -m tools.fuzz_native $(FUZZ)

## Build a wheel for other machines of this kind into dist/.
wheel: $(VENV)/bin/python
	$(PIP) wheel --no-deps -w dist .

## Build the core into mtkit/ for work on the sources.
native: $(VENV)/lint
	$(BIN)/python -m tools.native

clean:
	rm -rf "$(VENV)" build demo-out

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "mtkit needs Python 3.10 or newer: make PYTHON=python3.12"; exit 1; }
	@echo "making a virtual environment in $(VENV) …"
	@$(call watched,$(PYTHON) -m venv $(VENV)) || { rm -f $@; \
	  echo "python needs its venv module (Debian: apt-get install python3-venv)"; exit 1; }
	@$(call watched,$(PIP) install --upgrade pip)

SOURCES = pyproject.toml CMakeLists.txt $(shell find mtkit native -type f ! -name '*.so' ! -name '*.pyc')

$(VENV)/installed: $(BIN)/python $(SOURCES)
	@echo "installing mtkit into $(VENV): its dependencies, and its core from C++ (a minute on two cores) …"
	@start=$$(date +%s); $(call watched,$(PIP) install .) || \
	  { echo "not installed: pip needs its package index (a network, or its own settings)"; exit 1; }; \
	echo $$(($$(date +%s) - start)) >$@  # the demo says how long it took

$(VENV)/tests: $(BIN)/python $(SOURCES) tests/references.txt $(WHEELS)/llama_cpp_python.built
	@echo "installing mtkit and what its tests need into $(VENV) …"
	@$(call watched,$(PIP) install --find-links $(WHEELS) "$(TESTED)")
	@$(PIP) install --no-deps -r tests/references.txt
	@touch $(VENV)/installed $@

# What mtkit is measured against is not needed for anything else.
$(VENV)/bench: $(VENV)/installed benchmarks/peers.txt
	@echo "installing the libraries of benchmarks/peers.txt …"
	@$(call watched,$(PIP) install -r benchmarks/peers.txt ".[bench]")
	@touch $@

$(VENV)/docs: $(VENV)/installed
	@$(call watched,$(PIP) install ".[docs]")
	@touch $@

# There is no binary wheel of llama-cpp-python: it is built once and kept outside the checkout.
$(WHEELS)/llama_cpp_python.built: $(BIN)/python
	@mkdir -p $(WHEELS)
	@echo "building $(LLAMA) (about four minutes on two cores; kept in $(WHEELS)) …"
	@ls $(WHEELS)/llama_cpp_python-*.whl >/dev/null 2>&1 || $(call watched,$(PIP) wheel --no-deps -w $(WHEELS) $(LLAMA))
	@touch $@

# The types are those of the versions that mtkit is installed with: pyproject.toml has their bounds.
$(VENV)/lint: $(BIN)/python pyproject.toml
	@sed -n '/^dependencies = /,/^]/s/^ *"\([^"]*\)".*/\1/p' pyproject.toml > $(VENV)/bounds.txt
	@$(PIP) install -c $(VENV)/bounds.txt "mypy>=2" "ruff==0.17.5" "codespell>=2.4" "clang-format==14.0.6" "nanobind>=2.2" "scikit-build-core>=0.10" ninja cmake \
	  typer rich numpy jinja2 pytest starlette uvicorn msgspec prometheus-client
	@touch $@
