# Development tasks. 'make help' lists them.
#
# The environment is .venv, created from the hashed locks in requirements/ and recreated only when they change. The machine is
# checked before anything is downloaded (dev/stack/preflight.py).

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
            $$p -c '$(NEW_ENOUGH)' 2> /dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.installed
DEMO_STAMP := .venv/.installed-demo
LOCKS := requirements/daemon.txt requirements/dev.txt requirements/demo.txt requirements/build.txt
UV := .run/uv/bin/uv
COMPILE := $(UV) pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-annotate --universal --python-version 3.11
PYTEST := $(BIN)/pytest
S3_TESTS := tests/integration/docs/test_object_store_guide.py tests/integration/files/test_s3.py tests/integration/flat/test_storage.py tests/integration/flat/test_object_store.py \
            tests/integration/flat/test_a_day_in_an_object_store.py tests/integration/replication/test_object_store_replica.py \
            tests/crash/test_flat_object_store.py tests/crash/test_replay_crash_in_a_store.py \
            tests/integration/replication/test_external_tables_in_a_store.py \
            tests/integration/replication/test_copy_jobs_in_a_store.py tests/crash/test_copy_jobs_on_yarn_in_a_store.py

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: venv
venv: $(STAMP) ## Create the Python environment in .venv from the hashed locks

$(STAMP): $(LOCKS)
	$(call install,dev,about 1.3 GB)
	@touch $@ $(DEMO_STAMP)

# The demo needs neither Spark nor the tools of developers. 'make venv' adds them to the same environment.
$(DEMO_STAMP): requirements/demo.txt
	$(call install,demo,about 400 MB)
	@touch $@

define install
	@test -n "$(PYTHON)" && $(PYTHON) -c '$(NEW_ENOUGH)' || { \
	  echo "error: Python 3.11 or newer is required: install it, or run: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "error: $(PYTHON) cannot create environments: install its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m dev.stack.preflight
	@echo "installing Python packages ($(2)) in .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/$(1).txt
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
endef

.PHONY: check
check: venv ## Check style, types, layers and locks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -nE '://|^ *-(i|f|-index|-extra|-find)' $(LOCKS) requirements/flat.txt requirements/kafka.txt dev/stack/locks/*.lock || { echo "error: a lock file contains an address" >&2; exit 1; }

.PHONY: unit
unit: venv ## Run the unit tests, which need no server
	$(PYTEST) tests/unit -n 2

.PHONY: coverage
coverage: venv ## Run the unit tests with branch coverage and write docs/COVERAGE.md; fails below 100 % of state/ and 90 % of all
	@mkdir -p build/coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest tests/unit -n 2 --hypothesis-seed=0
	$(BIN)/coverage combine --quiet
	@rm -f build/coverage/data.* # incomplete data of processes that tests kill
	$(BIN)/python -m dev.coverage_page

.PHONY: test
test: stack ## Run unit and integration tests; starts Kafka and two Hive 4 clusters (about 3 GB of memory)
	@$(BIN)/python -m dev.stack preflight --quiet --tests
	$(BIN)/python -m dev.stack run $(PYTEST) tests/unit tests/integration -m "not docker and not long" -n 2 --dist loadfile

.PHONY: long
long: stack ## Run the integration tests that take half a minute or more (TIDELINE_AIRFLOW=PROGRAM and TIDELINE_DBT_DAGSTER=DIRECTORY for the guides to these)
	$(PYTEST) tests/integration -m "long and not docker"

.PHONY: test-all
test-all: stack ## Run all tests, including crash tests, container tests, and those on HDFS and on an object store
	$(BIN)/python -m dev.stack.object_store try $(PYTEST)

.PHONY: crash
crash: stack ## Run crash tests: processes are killed at every persistence point
	$(PYTEST) tests/crash

.PHONY: hive-3-histories
hive-3-histories: stack ## Replicate random histories of a Hive 3.1 source with compactions, and kill every process (SEEDS=1,2,3 ROUNDS=100 KILLS=12 TIDELINE_HIVE_3_ON=hdfs; needs PostgreSQL)
	TIDELINE_HIVE_3_SEEDS=$(or $(SEEDS),1,2,3) TIDELINE_HIVE_3_ROUNDS=$(or $(ROUNDS),100) TIDELINE_HIVE_3_KILLS=$(or $(KILLS),12) $(PYTEST) tests/integration/replication/test_hive_3_histories.py tests/crash/test_hive_3_histories.py

.PHONY: many-policies
many-policies: stack ## Replicate 200 databases with one daemon that is killed 20 times (POLICIES=200 KILLS=20)
	TIDELINE_POLICIES=$(or $(POLICIES),200) TIDELINE_POLICIES_KILLS=$(or $(KILLS),20) $(PYTEST) tests/crash/test_many_policies.py

HIVE_3_TESTS := $(addprefix tests/integration/replication/test_hive_3_,workload.py histories.py)

.PHONY: hive-3-elsewhere
hive-3-elsewhere: stack ## Replicate a Hive 3.1 source whose metastore uses PostgreSQL, and one whose warehouse is on HDFS (four more JVMs)
	TIDELINE_HIVE_3_ON=postgres $(PYTEST) $(HIVE_3_TESTS)
	TIDELINE_HIVE_3_ON=hdfs $(PYTEST) $(HIVE_3_TESTS)

.PHONY: fuzz
fuzz: venv ## Fuzz partition filters and keys for ten minutes, guided by coverage (FUZZ_S=seconds)
	@mkdir -p build/fuzz/corpus
	$(BIN)/python -m tests.fuzz.partition_filters build/fuzz/corpus -max_total_time=$(or $(FUZZ_S),600) -timeout=10 -max_len=4000 -artifact_prefix=build/fuzz/

.PHONY: s3
s3: stack ## Test files, replicas and flat tables on an object store (MinIO, built once with Go; needs Java 17)
	$(BIN)/python -m dev.stack.object_store run $(PYTEST) $(S3_TESTS)

.PHONY: hdfs
hdfs: stack ## Test copies, replication and flat tables on HDFS, copy jobs on YARN, and failures (up to twelve JVMs, about 7 GB of memory)
	$(PYTEST) tests/hdfs

.PHONY: kerberos
kerberos: stack ## Test clients, daemon and endpoint with Kerberos (five JVMs; needs MIT Kerberos, KRB5_ROOT=DIR for unpacked packages)
	$(PYTEST) tests/kerberos tests/hdfs/test_kerberos.py

.PHONY: k8s
k8s: stack ## Test executors of flat tables as pods on a Kubernetes API server (built once with Go; needs Java 17)
	$(PYTEST) tests/kubernetes

.PHONY: docker-test
docker-test: stack ## Test the stack as containers (as root it starts a Docker engine if none is running)
	$(BIN)/python -m dev.stack.docker_engine run $(PYTEST) -m docker

.PHONY: demo
demo: $(DEMO_STAMP) ## Demonstrate replication end to end: a workload on the source (FROM=3.1: of Hive 3.1) and its replica
	FROM="$(FROM)" $(BIN)/python -m dev.demo

.PHONY: demo-flat
demo-flat: venv ## Demonstrate a flat event table on this machine (needs Java 17)
	$(BIN)/python -m dev.flat_demo

.PHONY: bench
bench: stack ## Run all benchmarks and write docs/PERFORMANCE.md
	$(BIN)/python -m bench

.PHONY: stack
stack: venv
	@$(BIN)/python -m dev.stack preflight --quiet
	@$(BIN)/python -m dev.stack fetch

.PHONY: dist
dist: venv ## Build wheel and source distribution in dist, and check both
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

.PHONY: docs
docs: venv ## Build the site in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

.PHONY: dashboards
dashboards: venv ## Write the Grafana dashboards of the chart
	$(BIN)/python -m dev.dashboards

.PHONY: screenshots
screenshots: venv ## Take the pictures of the site in the documentation; needs Chromium
	$(BIN)/python -m tests.builders.daemon.screenshots

.PHONY: pictures
pictures: venv ## Draw the pictures of the documentation
	$(BIN)/python -m dev.pictures

.PHONY: chart
chart: venv ## Lint and render the Helm chart
	$(PYTEST) tests/unit/helm

.PHONY: cli-page
cli-page: venv ## Write docs/CLI.md, the help of every command
	$(BIN)/python -m dev.cli_page

.PHONY: chart-schema
chart-schema: venv ## Write the settings of the configuration into the chart's schema of values
	$(BIN)/python -m dev.chart_schema

# The registry from which the source of librdkafka is read.
NPM_REGISTRY = --build-arg NPM_REGISTRY_URL="$$($(PYTHON) -c 'from dev.stack.downloads.npm import find_registry; print(find_registry())')"

.PHONY: image
image: ## Build the container image of the daemon; IMAGE_OPTIONS are passed to the builder
	docker build $(IMAGE_OPTIONS) --target daemon --tag tideline $(NPM_REGISTRY) .

.PHONY: image-flat
image-flat: venv ## Build the image with Spark and Java, for flat tables
	docker build $(IMAGE_OPTIONS) --target flat --tag tideline:flat $(NPM_REGISTRY) --build-arg MAVEN_REPO_URL="$$($(BIN)/python -c 'from dev.stack.downloads.maven_repository import find_repository; print(find_repository())')" .

.PHONY: sbom
sbom: ## List what the image of the daemon consists of (build/sbom.json, CycloneDX)
	$(PYTHON) -m venv .run/sbom && .run/sbom/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom
	mkdir -p build && .run/sbom/bin/cyclonedx-py requirements requirements/daemon.txt --of JSON --output-file build/sbom.json

.PHONY: audit
audit: ## Look for known vulnerabilities of the locked packages (needs the package index's own service)
	$(PYTHON) -m venv .run/audit && .run/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	set -e; for lock in daemon flat build kafka; do .run/audit/bin/pip-audit --strict --require-hashes --disable-pip --requirement requirements/$$lock.txt; done

.PHONY: lock
lock: $(UV) ## Pin the newest versions of Python packages and, with Maven, of the stack's jars
	$(COMPILE) pyproject.toml --extra hbase --output-file requirements/daemon.txt
	$(COMPILE) pyproject.toml --all-extras --group dev --constraints requirements/daemon.txt --output-file requirements/dev.txt
	$(COMPILE) pyproject.toml --extra flat --extra mysql --extra postgresql --constraints requirements/dev.txt --output-file requirements/flat.txt
	$(COMPILE) pyproject.toml --group demo --constraints requirements/dev.txt --output-file requirements/demo.txt
	$(COMPILE) --group pyproject.toml:build --constraints requirements/dev.txt --output-file requirements/build.txt
	$(COMPILE) --group pyproject.toml:kafka --no-deps --output-file requirements/kafka.txt
	@if command -v mvn > /dev/null; then $(MAKE) --no-print-directory venv && $(BIN)/python -m dev.stack lock; \
	else echo "mvn is not installed: the jar locks were not changed"; fi

$(UV):
	$(PYTHON) -m venv .run/uv
	.run/uv/bin/pip install --quiet --disable-pip-version-check uv

.PHONY: clean
clean: ## Remove generated files (the jar cache in ~/.cache/tideline stays)
	rm -rf .venv .run build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
