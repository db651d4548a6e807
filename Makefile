# Every target sets up what it needs first; a second run finds it there. `make help` lists them.
HTTP_PORT ?= 8080
DOCS_PORT ?= 8000
PYTHON ?= python3
PY := .venv/bin/python
ENV ?= dev
MODEL ?= demo
# jsii warns about Node 20, with which it works; the value is a list of versions not to warn about.
CDK := JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION=20 infra/node_modules/.bin/cdk
# Settings by their path, for the environment ENV: SET="owner=team edge.price_class=PRICE_CLASS_ALL".
CONTEXT = -c env=$(ENV) $(if $(REGION),-c region=$(REGION)) $(if $(INSTALLATION),-c installation=$(INSTALLATION)) $(addprefix -c ,$(SET))
CHROMIUM ?= $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
# Tests of handlers keep a processor busy; those of the page wait more than they work.
CORES := $(shell getconf _NPROCESSORS_ONLN)
WORKERS ?= $(shell expr $(CORES) + 1)
E2E_WORKERS ?= $(shell expr $(CORES) \* 2)
# What is compiled once needn't be compiled by each process: to rewrite the assertions of the tests takes 8 s.
unexport PYTHONDONTWRITEBYTECODE
SIDE_BY_SIDE = -n $(1) --dist worksteal

# Asks a person; a workflow has nobody, and says YES=1.
ask = $(if $(YES),:,printf '$(1) [y/N] '; read answer; test "$$answer" = y)

LOCK := .venv/bin/uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --upgrade
# Lambda's run time brings boto3 and what that needs.
IN_LAMBDA_ALREADY := --no-emit-package botocore --no-emit-package urllib3 --no-emit-package python-dateutil --no-emit-package six

STOCK_CLIENTS := tests/integration/stock_clients
# Files of others that the tests use, so that no two of them install the same.
TEST_PACKAGES := $(addsuffix /node_modules/.installed,tests/integration/openai_server tests/integration/openai/javascript tests/integration/asyncapi_specs)
CLIENT_PACKAGES := .build/clients/.installed .build/litellm/.installed .build/strands/.installed $(addsuffix /javascript/node_modules/.installed,$(STOCK_CLIENTS) tests/conformance)
READER_PACKAGES := tests/conformance/javascript/node_modules/.installed
CHAOS_PACKAGES := .build/clients/.installed tests/conformance/javascript/node_modules/.installed
PEER_PACKAGES := .build/litellm/.installed .build/clients/.installed bench/peers/node_modules/.installed
# The first have limits of time; the others only compute. The longest are first.
LANES := test e2e e2e-network test-clients test-aws chaos-short attack-short -- test-compiled types test-infra bench-guard-short web-check docs-check lint

.DEFAULT_GOAL := help
.PHONY: help run run-aws unit test test-compiled test-clients test-codex test-infra test-aws check lint types web-check e2e e2e-network mutations chaos chaos-short attack attack-short crash soak picture bench bench-guard bench-guard-short bench-peers bench-fairness bench-guidellm cdk synth preflight deploy destroy deployer smoke redrive docs docs-serve proto docs-check lock clean

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 12

run: .venv/.runtime web/dist/index.html ## serve the page on http://127.0.0.1:8080 (HTTP_PORT=; WS_PORT= for a second one; PROCESSES=n or auto)
	@EVENFLOW_HTTP_PORT=$(HTTP_PORT) $(if $(WS_PORT),EVENFLOW_WS_PORT=$(WS_PORT)) $(if $(PROCESSES),EVENFLOW_PROCESSES=$(PROCESSES)) exec $(PY) -m evenflow serve

run-aws: .venv/.dev web/dist/index.html infra/node_modules/.installed ## the deployed system on an emulated AWS, behind one port (needs haproxy)
	@command -v haproxy >/dev/null || { echo "run-aws needs haproxy: apt-get install haproxy"; exit 2; }
	@exec $(PY) -m tests.aws --port $(HTTP_PORT) --model $(MODEL)

# Of the product alone, what starts no process and no server and has no files.
PURE := tests/unit $(addprefix --ignore=tests/unit/,bench docs stream_sqlite test_mutations.py)
unit: .venv/.dev ## the pure tests, to run at each save
	$(PY) -m pytest $(call SIDE_BY_SIDE,$(CORES)) --hypothesis-profile=quick $(PURE)

test: .venv/.dev web/dist/index.html $(TEST_PACKAGES) ## unit and integration tests (no browser needed; tests of `evenflow doctor` are skipped without nginx and haproxy; WORKERS=)
	$(PY) -m pytest $(call SIDE_BY_SIDE,$(WORKERS)) tests/unit tests/integration tests/chaos tests/attack tests/differential tests/filtering tests/e2e_network --ignore $(STOCK_CLIENTS)

# The compiled package, with its tests from the checkout.
test-compiled: .build/compiled/.built ## the pure tests and those of the stores, with the hot modules compiled
	PYTHONPATH=$(CURDIR)/.build/compiled $(PY) -P -c 'import evenflow__mypyc'
	PYTHONPATH=$(CURDIR)/.build/compiled $(PY) -P -m pytest $(call SIDE_BY_SIDE,$(WORKERS)) --import-mode=append -o pythonpath=.build/compiled $(PURE) tests/integration/stores

test-clients: .venv/.dev web/dist/index.html $(CLIENT_PACKAGES) ## clients as they come from their registries, of every protocol that is served (needs Prometheus)
	@command -v prometheus >/dev/null || { echo "test-clients needs Prometheus: apt-get install prometheus"; exit 2; }
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup $(STOCK_CLIENTS) tests/conformance

test-codex: .venv/.dev tests/conformance/codex/node_modules/.installed ## OpenAI's Codex as it comes, which is 424 MB (otherwise its tests are skipped)
	$(PY) -m pytest tests/conformance/test_codex.py

test-infra: .venv/.dev web/dist/index.html infra/node_modules/.installed ## the synthesized templates: behaviour, cdk-nag, cfn-lint, snapshots
	$(PY) -m pytest tests/infrastructure

test-aws: .venv/.dev web/dist/index.html infra/node_modules/.installed ## `cdk deploy` to an emulator, and the system that results (needs haproxy)
	@command -v haproxy >/dev/null || { echo "test-aws needs haproxy: apt-get install haproxy"; exit 2; }
	$(PY) -m pytest tests/aws

check: ## everything that CI runs: the lanes side by side, behind what they all need
	@$(MAKE) --no-print-directory --jobs=4 installed
	@$(PY) -m tests.lanes $(LANES)

.PHONY: installed
installed: .venv/.dev .venv/.bench .build/site/.installed web/dist/index.html infra/node_modules/.installed $(TEST_PACKAGES) $(CLIENT_PACKAGES)

lint: .venv/.dev ## ruff: lint and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: .venv/.dev .venv/.bench ## mypy, strict
	$(PY) -m mypy

web-check: web/node_modules/.installed ## types, lint and tests of the web client
	cd web && npm run --silent check

e2e: .venv/.dev web/dist/index.html .build/clients/.installed tests/integration/openai/javascript/node_modules/.installed ## a real headless Chromium against a real server
	@test -n "$(CHROMIUM)" || { echo "e2e needs Chromium: apt-get install chromium (or set CHROMIUM=/path)"; exit 2; }
	CHROMIUM=$(CHROMIUM) $(PY) -m pytest $(call SIDE_BY_SIDE,$(E2E_WORKERS)) tests/e2e

e2e-network: .venv/.dev web/dist/index.html $(READER_PACKAGES) ## readers in Chromium and Firefox whose network fails, whose laptop sleeps, whose node leaves: nothing may be given up, lost, or asked twice (four minutes; ALL=1 for every combination, an hour)
	CHROMIUM=$(CHROMIUM) $(PY) -m tests.e2e_network $(if $(ALL),--all)

chaos: .venv/.dev web/dist/index.html $(CHAOS_PACKAGES) ## kill, drain, pause, cut and throttle under load: nothing may be lost (minutes; needs haproxy; SEED=)
	@command -v haproxy >/dev/null || { echo "chaos needs haproxy: apt-get install haproxy"; exit 2; }
	$(PY) -m tests.chaos $(if $(SEED),--seed $(SEED))

chaos-short: .venv/.dev web/dist/index.html $(CHAOS_PACKAGES)
	@command -v haproxy >/dev/null || { echo "chaos-short needs haproxy: apt-get install haproxy"; exit 2; }
	$(PY) -m tests.chaos --short

attack: .venv/.dev web/dist/index.html ## hostile clients, models and pages, in one table: honest readers must not notice (about an hour; ONLY=)
	$(PY) -m tests.attack $(if $(ONLY),--only $(ONLY))

attack-short: .venv/.dev web/dist/index.html
	$(PY) -m tests.attack --short

crash: .venv/.dev ## kill -9 in the middle of 1,000 answers, start again: every reader goes on (minutes; ANSWERS=)
	$(PY) -m tests.chaos.kill_and_restart $(if $(ANSWERS),--answers $(ANSWERS))

soak: .venv/.dev web/dist/index.html .build/engines/.installed .build/litellm/.installed $(TEST_PACKAGES) $(READER_PACKAGES) tests/conformance/codex/node_modules/.installed ## what takes long for real: long searches, a long answer, ten minutes of random bytes, five minutes of streams that stock clients read beside Evenflow, every outage at every page (an hour), two real engines behind Evenflow (the first time it compiles one)
	$(PY) -m pytest tests/soak
	$(PY) -m tests.fuzz --seconds 600
	$(PY) -m pytest tests/conformance/test_codex.py
	$(PY) -m tests.differential --seconds 300 --over-http 300
	$(PY) -m tests.e2e_network --all
	$(PY) -m pytest $(call SIDE_BY_SIDE,$(WORKERS)) --hypothesis-profile=long -m hypothesis tests/unit tests/integration/stores

mutations: .venv/.dev web/dist/index.html ## make known faults, one after the other: the tests must find each (FAULTS=)
	$(PY) -m tests.mutations $(FAULTS)

picture: .venv/.dev web/dist/index.html ## films the page for the README: a network that is cut, a node that is killed (needs Chromium)
	CHROMIUM=$(CHROMIUM) $(PY) -m tests.e2e.moving_picture

bench-guidellm: .venv/.bench .build/compiled/.built .build/guidellm/.installed ## GuideLLM, a load generator of others, against /v1: its own table in bench/results/
	$(PY) -m bench.guidellm

# The package as a wheel has it. Without a C compiler it is interpreted, like the checkout.
.build/compiled/.built: .venv/.dev web/dist/index.html setup.py pyproject.toml $(shell find -L evenflow -name '*.py')
	rm -rf .build/compiled
	$(PY) setup.py --quiet build --build-lib .build/compiled --build-temp .build/compiled.tmp
	@touch $@

.PHONY: compiled
compiled: .build/compiled/.built ## the package with its hot modules compiled, in .build/compiled (two minutes of mypyc and a C compiler)

bench: .venv/.bench .build/compiled/.built ## the side-by-side measurements: a table, JSON and a plot in bench/results/
	$(PY) -m bench

bench-guard: .venv/.bench .build/compiled/.built ## Evenflow's speed beside the recorded one, as ratios, in three minutes: fails when a figure is 10 % worse (SHOW=1: only prints; RECORD=1: writes the record; ROUNDS=; needs nginx, valgrind)
	$(PY) -m bench.guard $(if $(SHOW),--show) $(if $(RECORD),--record) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-guard-short: .venv/.bench
	$(PY) -m bench.guard --instructions $(if $(RECORD),--record)

bench-fairness: .venv/.bench ## who is given how much of a busy model, and how soon: Evenflow beside round robin and first come first served, 1 task and 3; in virtual time (8 minutes), then in real time (27 minutes), and before a service that refuses (23 minutes)
	$(PY) -m bench.fairness.simulated
	$(PY) -m bench.fairness
	$(PY) -m bench.fairness --fleet

bench-peers: .venv/.bench .build/compiled/.built $(PEER_PACKAGES) ## Evenflow beside LiteLLM, Portkey, nginx, nchan, Durable Streams, resumable-stream and socket.io (minutes)
	$(PY) -m bench.peers

cdk: .venv/.infra .venv/.aws web/dist/index.html infra/node_modules/.installed ## install what plain `cdk synth`, `cdk diff` and `cdk deploy` need (then: . .venv/bin/activate)
	@ln -sf ../../infra/node_modules/.bin/cdk .venv/bin/cdk
	$(if $(filter cdk,$(MAKECMDGOALS)),@echo "ready: . .venv/bin/activate && cdk synth -c env=dev")

synth: cdk ## the CloudFormation templates of ENV=dev|staging|prod, in cdk.out/ (REGION=, INSTALLATION=, SET="setting=value …")
	$(CDK) synth --quiet $(CONTEXT)

preflight: synth ## check that an account has what ENV=dev|staging|prod needs: model, quotas, certificate, bootstrap, Docker (reads only)
	@$(PY) -m evenflow.infra.preflight

deploy: synth ## deploy ENV=dev|staging|prod (needs Docker and AWS credentials); says first what it creates and costs, and asks (YES=1: does not)
	@$(PY) -m evenflow.infra.announce
	@! grep -qs '"dockerFile"' cdk.out/*.assets.json || command -v "$${CDK_DOCKER:-docker}" >/dev/null || { echo "deploy builds the handler's image: install Docker, name another builder in CDK_DOCKER, or an image: SET=image=…"; exit 2; }
	@$(PY) -m evenflow.infra.preflight --only-update
	@$(call ask,Deploy this?)
	$(CDK) deploy --app cdk.out --all --require-approval $(if $(YES),never,broadening)

# CloudFront leaves a security group in the VPC. It blocks the VPC's deletion, so it goes first.
destroy: synth .venv/.aws ## take ENV=dev|staging|prod away again; what an environment keeps stays, and is listed (asks first; YES=1 does not)
	@$(call ask,Destroy $(ENV)?)
	$(CDK) destroy --app cdk.out '!(*-network)' --force
	@$(PY) -m evenflow.infra.removal --cloudfront-group
	$(CDK) destroy --app cdk.out --all --force
	@$(PY) -m evenflow.infra.removal

deployer: .venv/.infra .venv/.aws infra/node_modules/.installed ## the role with which REPOSITORY=owner/name on GitHub deploys into this account, without a key (REGION=, INSTALLATION=; PROVIDER= the ARN of GitHub's provider where the account has it)
	@test -n "$(REPOSITORY)" || { echo "say whose: make deployer REPOSITORY=owner/name"; exit 2; }
	$(CDK) deploy --app "$(PY) -m evenflow.infra.deployer $(REPOSITORY)$(if $(REGION), --region $(REGION))$(if $(INSTALLATION), --installation $(INSTALLATION))$(if $(PROVIDER), --provider-arn $(PROVIDER))"

smoke: .venv/.dev ## call a deployment at URL= over every transport and protocol: a table, and an exit status (key: EVENFLOW_TENANT_KEY; with ENV= it also checks the pager)
	@test -n "$(URL)" || { echo "say where: make smoke URL=https://d111.cloudfront.net"; exit 2; }
	@$(PY) -m evenflow.functions.canary smoke $(URL)
	@$(if $(filter command,$(firstword $(origin ENV))),$(MAKE) --no-print-directory synth && $(PY) -m evenflow.infra.preflight --pager,:)

redrive: .venv/.aws ## give the messages of ENV's dead letters another life (LIMIT=, DRY_RUN=1; needs AWS credentials)
	@$(PY) -m evenflow.stream_aws.redrive --env $(ENV) $(if $(INSTALLATION),--installation $(INSTALLATION)) $(if $(REGION),--region $(REGION)) $(if $(LIMIT),--limit $(LIMIT)) $(if $(DRY_RUN),--dry-run)

docs: .venv/.dev ## write the pages that are generated from the code
	$(PY) -m docs.generate

proto: .venv/.dev ## write the messages of proto/ (fargate_handler/inference/llm_v1)
	$(PY) -m grpc_tools.protoc -Ievenflow/fargate_handler/inference/llm_v1=proto/llm/v1 --python_out=. --pyi_out=. --grpc_python_out=. evenflow/fargate_handler/inference/llm_v1/inference.proto

docs-check: .venv/.dev .build/site/.installed
	$(PY) -m docs.generate --check
	$(PY) -m docs.site

docs-serve: .venv/.dev .build/site/.installed ## the documentation as a site, on http://127.0.0.1:8000 (DOCS_PORT=)
	@exec $(PY) -m docs.site --serve --port $(DOCS_PORT)

# They are installed into one environment, so each is bound by the largest.
lock: .venv/.dev ## resolve the hashed requirement files again
	$(LOCK) --extra dev --extra bench pyproject.toml --python-version 3.11 -o requirements/dev.txt
	printf 'uv\n' | $(LOCK) - -c requirements/dev.txt --python-version 3.11 -o requirements/installer.txt
	printf 'mypy\nsetuptools\n' | $(LOCK) - -c requirements/dev.txt --python-version 3.11 -o requirements/compiler.txt
	for group in runtime aws infra bench; do \
	  extra=$$([ $$group = runtime ] || echo "--extra $$group"); \
	  $(LOCK) $$extra pyproject.toml -c requirements/dev.txt --python-version 3.11 -o requirements/$$group.txt || exit 1; \
	done
	for group in clients litellm strands site; do \
	  $(LOCK) --group pyproject.toml:$$group --python-version 3.11 -o requirements/$$group.txt || exit 1; \
	done
	for group in engines guidellm; do \
	  printf 'torch\n' | $(LOCK) --group pyproject.toml:$$group --python-version 3.11 --excludes - -o requirements/$$group.txt || exit 1; \
	done
	$(LOCK) --group pyproject.toml:functions -c requirements/dev.txt --python-version 3.12 $(IN_LAMBDA_ALREADY) -o requirements/functions.txt

clean: ## remove what was installed and built
	rm -rf .venv .build build dist *.egg-info cdk.out web/node_modules infra/node_modules web/dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Evenflow needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/.%: requirements/%.txt | .venv/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# For what is much: pip takes two minutes for what uv does in seconds.
.venv/bin/uv: requirements/installer.txt | .venv/bin/python
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.venv/.dev .venv/.bench: .venv/.%: requirements/%.txt | .venv/bin/uv
	.venv/bin/uv pip install --quiet --python .venv --require-hashes -r $<
	@touch $@

# Environments of their own: what they hold does not agree with ours, or is too large for it.
.build/%/.installed: requirements/%.txt | .venv/bin/uv
	.venv/bin/uv venv --quiet --clear --python $(PY) .build/$*
	.venv/bin/uv pip install --quiet --python .build/$*/bin/python --require-hashes -r $<
	@touch $@

# PyTorch without a lock: each machine has one of its own.
.build/engines/.installed .build/guidellm/.installed: .build/%/.installed: requirements/%.txt
	$(PYTHON) -m venv --clear .build/$*
	.build/$*/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	CMAKE_ARGS="-DLLAVA_BUILD=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF" .build/$*/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

%/node_modules/.installed: %/package-lock.json
	cd $* && npm ci --silent --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.installed $(shell find web/src web/build.mjs web/library-bundle.mjs web/package.json -type f 2>/dev/null)
	cd web && npm run --silent build
