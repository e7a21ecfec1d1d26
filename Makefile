# Everything a developer runs. `make help` lists it; CI runs the parts of `make check`, see .ci/run.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

GO ?= go
# How everything is built, so that what one target compiles serves the next, in whatever folder. Without grpcnotrace gRPC brings
# along pages of traces, which nobody can see here, and with them html/template; nopgxregisterdefaulttypes leaves out of pgx what is for
# parameters whose types PostgreSQL has not told, and here it tells them all: 1.4 MB (docs/dependencies.md). What debuggers read is not
# made: no program keeps it, and to make it is a tenth of the compiler's time.
export CGO_ENABLED := 0
BUILDFLAGS := -trimpath -tags=grpcnotrace,nopgxregisterdefaulttypes -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(BUILDFLAGS),$(shell $(GO) env GOFLAGS 2>/dev/null)) $(BUILDFLAGS)
# The compiler collects garbage less often than it would by itself: that saves a sixth of its time, and is bounded.
LESS_GARBAGE := GOGC=400 GOMEMLIMIT=1GiB
COMPILE := $(LESS_GARBAGE) $(GO)
BIN := $(CURDIR)/.bin
USER_PATH := $(subst $(BIN):,,$(PATH))
export PATH := $(BIN):$(USER_PATH)

# Pinned tools. A new version is a new stamp file, so changing a line here reinstalls.
GOLANGCI_LINT := $(BIN)/.golangci-lint-v2.15.0
GOFUMPT       := $(BIN)/.gofumpt-v0.12.0
GOTESTSUM     := $(BIN)/.gotestsum-v1.13.0
PROTOC_GO     := $(BIN)/.protoc-gen-go-v1.36.12
PROTOC_GRPC   := $(BIN)/.protoc-gen-go-grpc-v1.5.1
GRPCURL       := $(BIN)/.grpcurl-v1.9.3
NFPM          := $(BIN)/.nfpm-v2.45.0
BENCHSTAT     := $(BIN)/.benchstat-v0.0.0-20260908200009-22c9c6c9d4da
H2SPEC        := $(BIN)/.h2spec
VENV          := $(BIN)/venv/.ready
CHDB          := $(BIN)/chdb/.ready
NODE_ECE      := $(BIN)/node/node_modules/.package-lock.json
# WordPress itself, and what lets it keep its data in SQLite.
WP_SQLITE     := 3.1.56
WP_SQLITE_SUM := 519abfab608e6b70e88d8731192eae51da3eadf3981ee2be043f0b01c214a9ee
WORDPRESS     := $(BIN)/wordpress/.with-$(WP_SQLITE)
PYTHON_VENV   := $(BIN)/python/.ready
# What the Python client is built with and needs, for tests that install it.
WHEELS        := $(BIN)/wheels/.ready
# The JavaScript client's tools, and buf, which npm's registry has built; package-lock.json pins them.
JS            := clients/js
NODE_MODULES  := $(JS)/node_modules/.package-lock.json
BUF           := $(CURDIR)/$(JS)/node_modules/.bin/buf

# What the tests run. Narrow it: make test PACKAGES=./internal/notify/frame/...
PACKAGES ?= ./...
# Where goroutines share memory: the engine, sessions, mailboxes and the store of them on SQLite, objects, topics, requests, sends. These
# are tested with the race detector; so is everything by make check-all, and what PACKAGES narrow the run to. All that they import
# is compiled twice, so none of them brings a server of NATS, a driver of PostgreSQL or Redis, or all of Godwit along.
RACED ?= $(if $(filter ./...,$(PACKAGES)),$(addprefix ./internal/,engine/reactor/... engine/timerwheel engine/fair engine/latency notify/session notify/mailbox notify/delivery notify/escalation objects/signal messaging/pubsub messaging/request access sending/dispatch campaigns/campaign feeds/hook feeds/sink feeds/source feeds/source/streams gateway/admission gateway/mqttgate/wire store/await store/eventlog store/notes store/sqlite/mailboxdb store/sqlite/sqlitedb server/httpapi/direct),$(PACKAGES))
# Without a table of symbols a test's program is linked in two thirds of the time.
TESTFLAGS ?= -vet=off -ldflags=-s -timeout 30m
# The race detector stays out of SQLite, which is C translated to Go: it takes most of the time there, and watches nothing of
# ours. Vetting is left to make lint.
RACEFLAGS := -race -gcflags=modernc.org/...=-race=false
# How many packages are tested at once: more than there are cores, since tests wait more than they compute.
TESTS_AT_ONCE ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
# Those that take longest come first: what begins last has nothing left to run beside it.
LONGEST := $(addprefix ./,test/foreign test/webpage test/campaigns test/faults test/attack test/cluster internal/store/postgres/mailboxdb internal/cluster test/api internal/gateway/grpcgate internal/server/cli internal/store/redisstream internal/store/sqlite/mailboxdb bench/cli internal/store/sqlite/eventdb internal/store/sqlite/checkvfs internal/store/postgres/campaigndb internal/store/postgres/pgdb internal/gateway/wsgate internal/gateway/pollgate test/rides internal/gateway/ssegate)
# A program with the race detector in it sleeps before it exits, a second unless it is told.
export GORACE ?= atexit_sleep_ms=100
# How long `make fuzz` gives each target.
FUZZTIME ?= 60s
PYTESTFLAGS ?=
PYTHON := $(BIN)/python/bin
SOURCES = $(shell find . -name '*.go' -not -name '*.pb.go' -not -path './.bin/*' -not -path '*/node_modules/*')

.PHONY: help
help: ## list what can be made
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## build and start a development server; says what to paste next
	$(COMPILE) build -ldflags '-s -w' -o $(BIN)/ ./cmd/godwit
	@PATH='$(USER_PATH)' .bin/godwit serve --dev

.PHONY: newcomer
newcomer: ## do what README's quick start says in a fresh clone and an empty environment, and say how long it took
	@tools/newcomer/run

.PHONY: build
build: ## build .bin/godwit and .bin/godwit-bench, static, without cgo
	$(COMPILE) build -ldflags '-s -w' -o $(BIN)/ ./cmd/godwit ./cmd/godwit-bench

# What is handed out. Windows lacks what stores keep their files whole with. Made of the same commit it is the same, byte for byte.
PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
DIST      := $(CURDIR)/dist
VERSION    = $(shell sed -n 's/^const Version = "\(.*\)"$$/\1/p' internal/server/cli/command/command.go)
DIST_TIME  = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || date +%s))
# The project's page and the folder with a release's files, both https URLs: packages name them (docs/releasing.md).
HOMEPAGE  ?= https://example.org/godwit
DOWNLOADS ?= $(HOMEPAGE)/v$(VERSION)
# Without the clients, whose packages need npm and Python: make dist CLIENTS=
CLIENTS   ?= npm pypi

.PHONY: dist
dist: $(NFPM) ## make archives, packages for Debian, Fedora, Homebrew, npm, PyPI and WordPress, checksums and bills of materials (PLATFORMS=linux-amd64 for fewer)
	@tar --version 2>/dev/null | grep -q GNU || { echo "make dist needs GNU tar: on macOS, brew install gnu-tar and put its gnubin into PATH" >&2; exit 1; }
	rm -rf $(DIST)
	@SOURCE_DATE_EPOCH=$(DIST_TIME) $(GO) run ./tools/manual $(DIST)/share
	@$(MAKE) --no-print-directory $(PLATFORMS:%=dist-%) plugin $(CLIENTS:%=dist-%)
	@$(GO) run ./tools/formula -version $(VERSION) -homepage $(HOMEPAGE) -downloads $(DOWNLOADS) $(DIST) >$(DIST)/.formula && mv $(DIST)/.formula $(DIST)/godwit.rb
	@case $(HOMEPAGE) in *//example.*) echo "packages name $(HOMEPAGE) as the project's page: for a release, set HOMEPAGE and DOWNLOADS" >&2;; esac
	cd $(DIST) && rm -rf */ && sha256sum -- * >SHA256SUMS && cat SHA256SUMS

# From godwit-VERSION-OS-ARCH the archive is made, and for Linux the packages.
.PHONY: dist-%
dist-%: name = godwit-$(VERSION)-$*
dist-%: os = $(word 1,$(subst -, ,$*))
dist-%: arch = $(word 2,$(subst -, ,$*))
dist-%:
	@mkdir -p $(DIST)/$(name)
	GOOS=$(os) GOARCH=$(arch) $(GO) build -ldflags '-s -w' -o $(DIST)/$(name)/ ./cmd/godwit ./cmd/godwit-bench
	@cp -r README.md CHANGELOG.md LICENSE $(DIST)/share $(if $(filter linux,$(os)),deploy/godwit.service) $(DIST)/$(name)
	@for program in godwit godwit-bench; do $(GO) run ./tools/sbom $(DIST)/$(name)/$$program $(VERSION) >$(DIST)/$$program-$(VERSION)-$*.cdx.json; done
	@tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w --mtime=@$(DIST_TIME) -C $(DIST) -cf - $(name) | gzip -n9 >$(DIST)/$(name).tar.gz
	@if [ $(os) = linux ]; then \
		sed -i 's|/usr/local/bin|/usr/bin|' $(DIST)/$(name)/godwit.service; \
		for packager in deb rpm; do \
			SOURCE_DATE_EPOCH=$(DIST_TIME) ARCH=$(arch) VERSION=$(VERSION) HOMEPAGE=$(HOMEPAGE) DIST=$(DIST)/$(name) \
				nfpm package --config deploy/nfpm.yaml --packager $$packager --target $(DIST)/ | grep -v '^using'; \
		done; \
	fi

# The clients are packed from a copy, whose links and addresses are the published ones.
.PHONY: dist-npm
dist-npm: $(NODE_MODULES)
	@mkdir -p $(DIST)/npm
	cd $(JS) && node_modules/.bin/tsc -p tsconfig.build.json --outDir $(DIST)/npm/dist
	@cp $(JS)/package.json LICENSE $(DIST)/npm
	@$(GO) run ./tools/clientreadme $(JS)/README.md $(HOMEPAGE) >$(DIST)/npm/README.md
	@cd $(DIST)/npm && npm pkg delete scripts devDependencies && npm pkg set homepage=$(HOMEPAGE) && npm pack --silent --pack-destination $(DIST)

.PHONY: dist-pypi
dist-pypi: $(PYTHON_VENV)
	@mkdir -p $(DIST)/pypi
	@git ls-files -z clients/python | xargs -0 cp --parents -t $(DIST)/pypi
	@cp LICENSE $(DIST)/pypi/clients/python
	@$(GO) run ./tools/clientreadme clients/python/README.md $(HOMEPAGE) >$(DIST)/pypi/clients/python/README.md
	@printf '\n[project.urls]\nHomepage = "%s"\n' $(HOMEPAGE) >>$(DIST)/pypi/clients/python/pyproject.toml
	@cd $(DIST)/pypi/clients/python && SOURCE_DATE_EPOCH=$(DIST_TIME) $(PYTHON)/python -m build --no-isolation --outdir $(DIST) . | tail -n 1

.PHONY: site
site: ## make the documentation as static files in dist/site
	@rm -rf $(DIST)/site && $(GO) run ./tools/site -o $(DIST)/site

.PHONY: plugin
plugin: ## make the zip of the plug-in for WordPress
	@mkdir -p $(DIST)
	@SOURCE_DATE_EPOCH=$(DIST_TIME) $(GO) run ./tools/pluginzip integrations/wordpress $(DIST)

# The tools that packages' tests need, beside the runner itself. What is not there is skipped, so a package that is not
# named here needs none.
TOOLS_test/foreign         := $(GRPCURL) $(H2SPEC) $(VENV) $(NODE_ECE) chromium firefox redis php mosquitto modules wordpress $(WHEELS) $(NODE_MODULES)
TOOLS_test/webpage         := chromium firefox $(NODE_MODULES)
TOOLS_examples/observatory := $(PYTHON_VENV)
TOOLS_examples/workers     := $(VENV) chromium
TOOLS_examples/inbox       := chromium
TOOLS_internal/store/postgres := postgresql
TOOLS_internal/feeds/source/postgres := postgresql
TOOLS_test/cluster         := postgresql haproxy
TOOLS_test/campaigns       := postgresql haproxy
TOOLS_test/sources         := postgresql
TOOLS_test/faults          := postgresql haproxy
TOOLS_test/api             := postgresql
TOOLS_test/rides           := postgresql haproxy
TOOLS_internal/testkit/redisserver := redis
TOOLS_internal/store/redisstream := redis
TOOLS_internal/server/app        := redis
TOOLS_examples/cluster     := postgresql haproxy
TOOLS_examples/orders      := postgresql
TOOLS_internal/testkit/mariaserver := mariadb
TOOLS_internal/feeds/source/outbox := postgresql mariadb
TOOL_PACKAGES := examples/orders internal/feeds/source/postgres internal/feeds/source/outbox test/sources test/foreign test/webpage examples/observatory examples/workers examples/inbox internal/store/postgres test/cluster test/campaigns test/faults test/rides test/api examples/cluster internal/testkit/redisserver internal/testkit/mariaserver internal/store/redisstream internal/server/app
# covers PACKAGE is not empty if PACKAGES name it: by its path or by a pattern that ends in /...
covers = $(strip $(foreach p,$(PACKAGES:./%=%),$(filter $(subst ...,%,$p),$1 $1/)))

# Tests and their programs are kept in memory where there is room and programs may run there. Go puts both into GOTMPDIR, or else
# TMPDIR. `make check-all` waits for the disk.
IN_MEMORY = room=$$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $$4}'); \
	if [ -z "$(ON_DISK)" ] && [ "$${room:-0}" -gt 8000000 ] && probe=$$(mktemp /dev/shm/godwit.XXXXXX); then \
		cp /bin/true $$probe && chmod +x $$probe && $$probe 2>/dev/null && export TMPDIR=/dev/shm && unset GOTMPDIR; rm -f $$probe; \
	fi

.PHONY: test
test: ## run all tests, installing what they need (narrow with PACKAGES=./internal/...)
	@tools/toolchains/check $(if $(CLIENT_TESTS),,go)
	@$(MAKE) --no-print-directory go-test BESIDE='$(strip $(CLIENT_TESTS) $(BESIDE))'

# Parts whose tests take long, with what they are made of and what their tests read. PART/tested holds the digest of these files when all tests of
# the part last passed; make test writes it where GODWIT_TEST_STRICT lets no test be skipped. Where the digest differs, and in make check-all, all
# of them run. Elsewhere nothing of deploy and Kotlin is tested, and of the others what shows that the part and the server still understand each
# other.
READS_deploy         := deploy docs/reference/config.md docs/reference/metrics.md go.mod tools/manual tools/formula tools/clientreadme clients/js/package.json clients/python/pyproject.toml
READS_clients/kotlin := clients/kotlin examples/android api/vectors api/godwit/v1/client.proto docs/guides/phones.md
READS_clients/js     := clients/js api/vectors api/godwit/v1 docs/guides/inbox-component.md docs/guides/react-native.md internal/server/sdk
READS_clients/python := clients/python api/vectors api/godwit/v1 docs/guides/python.md
READS_test/webpage   := test/webpage test/blackbox/chromium clients/js/src internal/server/admin internal/server/docsite internal/server/sdk
READS_internal/gateway/quicgate := internal/gateway/quicgate test/foreign/quic* test/foreign/clients test/foreign/requirements.txt clients/js/src/live go.mod
READS_internal/gateway/pushgate := internal/gateway/pushgate test/foreign/push* test/foreign/clients test/firefox go.mod
READS_clients        := clients/go clients/js clients/python docs/guides go.mod
GO_PARTS := test/webpage internal/gateway/quicgate internal/gateway/pushgate clients
digest    = git ls-files -z $(READS_$1) ':(exclude,glob)**/tested' | xargs -0 sha256sum | sha256sum | cut -c 1-64
passed    = if [ -n "$(GODWIT_TEST_STRICT)" ]; then $(call digest,$1) >$1/tested; fi
unchanged = [ -z "$(GODWIT_TEST_THOROUGH)" ] && [ "$$($(call digest,$1))" = "$$(cat $1/tested 2>/dev/null)" ]

# With PACKAGES narrowed, Go alone is tested.
CLIENT_TESTS = $(if $(filter ./...,$(PACKAGES)),python-test js-test kotlin-test deploy-test)
# Targets that are made before the Go tests, all at once; the summary lists each as a package.
BESIDE ?=
TOOLS_BESIDE := $(PYTHON_VENV) $(NODE_MODULES) chromium haproxy prometheus

# The tests get the user's PATH: what they find there is the same in another clone, and so Go knows their results.
.PHONY: go-test
go-test: $(GOTESTSUM) $(if $(strip $(BESIDE)),$(TOOLS_BESIDE)) $(foreach p,$(TOOL_PACKAGES),$(if $(call covers,$p),$(TOOLS_$p)))
	@$(GO) build -o $(BIN)/testrun ./tools/testrun
	@$(IN_MEMORY); export GODWIT_TEST_UNCHANGED=; $(foreach p,$(GO_PARTS),if $(call unchanged,$p); then GODWIT_TEST_UNCHANGED+='$p '; fi;) \
	PATH='$(USER_PATH)' $(BIN)/gotestsum --format pkgname-and-test-fails --raw-command -- $(BIN)/testrun -make '$(BESIDE)' -raced '$(RACED)' -p $(TESTS_AT_ONCE) -flags '$(TESTFLAGS)' -race-flags '$(RACEFLAGS)' $(if $(filter ./...,$(PACKAGES)),$(LONGEST)) $(PACKAGES)
ifeq ($(origin PACKAGES)$(origin TESTFLAGS),filefile)
	@$(foreach p,$(GO_PARTS),$(call passed,$p);)
endif

# What changed since this branch left main (SINCE names another commit), what imports it, and one walk through the built program. Tests
# wait more than they compute, so twice as many packages run at once as there are cores, and four times as many tests of each; vetting
# is left to make lint. What they write is kept in memory where there is room for it: to wait for a disk is left to make test.
QUICK = $(GO) test -short -vet=off -ldflags=-s -p $$((2 * $$(getconf _NPROCESSORS_ONLN))) -parallel $$((4 * $$(getconf _NPROCESSORS_ONLN))) -timeout 5m
.PHONY: quick
quick: ## test what you changed, what imports it, and one walk through the program, in half a minute: -short, no race, nothing installed
	@packages=$$($(GO) run ./tools/affected -short -near $(if $(SINCE),-since $(SINCE))); \
	if [ -z "$$packages" ]; then echo "nothing has changed"; exit 0; fi; \
	$(IN_MEMORY); status=0; \
	$(QUICK) $$packages | { grep -v 'no test files' || true; } || status=1; \
	$(QUICK) -run 'TestScripts/newcomer$$' ./internal/server/cli || status=1; \
	exit $$status

# The wheel is tested as it is installed, against a server built from here.
.PHONY: python-test
python-test: $(PYTHON_VENV) ## lint, type-check and test the Python client against a server built for it; a few tests if it did not change (choose with PYTESTFLAGS='-k listen')
	@if $(call unchanged,clients/python); then $(MAKE) --no-print-directory python-test-all PYTESTFLAGS='$(or $(PYTESTFLAGS),$(PYTHON_WALK))'; \
	else $(MAKE) --no-print-directory python-test-all $(if $(PYTESTFLAGS),,&& $(call passed,clients/python)); fi

# What of an unchanged client is tested: that it publishes, listens, subscribes, and follows objects.
JS_WALK := live topics requests objects
PYTHON_WALK := tests/test_publish.py tests/test_topics.py tests/test_objects.py tests/test_requests.py
.PHONY: python-test-all
python-test-all: $(PYTHON_VENV) ## all tests of the Python client
	$(GO) build -ldflags '-s -w' -o $(BIN)/python/godwit ./cmd/godwit
	cd clients/python && $(PYTHON)/python -m ruff format --check . && $(PYTHON)/python -m ruff check .
	rm -rf $(BIN)/python/dist
	cd clients/python && $(PYTHON)/python -m build --wheel --no-isolation --outdir $(BIN)/python/dist . >/dev/null
	$(PYTHON)/python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --force-reinstall $(BIN)/python/dist/*.whl
	$(PYTHON)/python -m pip check --disable-pip-version-check
	cd clients/python && $(PYTHON)/python -m mypy
	cd clients/python && GODWIT_BINARY=$(BIN)/python/godwit $(PYTHON)/python -m pytest -q $(PYTESTFLAGS)

.PHONY: js-test
js-test: $(NODE_MODULES) chromium ## run the tests of the JavaScript client, against a server built for them; a few if it did not change
	@if $(call unchanged,$(JS)); then cd $(JS) && npm test --silent -- $(JS_WALK); else (cd $(JS) && npm test --silent) && $(call passed,$(JS)); fi

.PHONY: js-server
js-server:
	$(GO) build -ldflags '-s -w' -o $(BIN)/js/godwit ./cmd/godwit

# To compile and test the Kotlin client takes minutes. Other versions of Java run the tests again if they are there.
JAVA_HOMES ?= $(wildcard /usr/lib/jvm/temurin-25-jdk-*)
# A build is over before the better of the two compilers of the JVM has paid off.
MAVEN = MAVEN_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' mvn -B -ntp -q

.PHONY: kotlin-test
kotlin-test: ## compile and test the Kotlin client, against a server built for it, if it changed
	@if $(call unchanged,clients/kotlin); then echo "clients/kotlin: tested as it is"; else $(MAKE) --no-print-directory kotlin-test-all; fi

.PHONY: kotlin-test-all
kotlin-test-all: maven
	$(GO) build -ldflags '-s -w' -o $(BIN)/kotlin/godwit ./cmd/godwit
	rm -rf clients/kotlin/*/target/classes # Maven leaves classes whose sources are gone
	cd clients/kotlin && GODWIT_BINARY=$(BIN)/kotlin/godwit $(MAVEN) install
	cd clients/kotlin/consumer && $(MAVEN) --offline compile
	cd clients/kotlin/shrunk && GODWIT_BINARY=$(BIN)/kotlin/godwit $(MAVEN) test
	cd examples/android && $(MAVEN) test
	@for home in $(JAVA_HOMES); do echo "with $$home"; for d in clients/kotlin/client clients/kotlin/grpc; do \
		(cd $$d && GODWIT_BINARY=$(BIN)/kotlin/godwit $(MAVEN) surefire:test -Dtest.jvm=$$home/bin/java) || exit 1; done; done
	@$(call digest,clients/kotlin) >clients/kotlin/tested

.PHONY: screenshots
ifdef LANGUAGES
screenshots: chromium devanagari
	@mkdir -p $(DIST)/screenshots
	GODWIT_TEST_STRICT=1 GODWIT_SCREENSHOTS=$(DIST)/screenshots GODWIT_SCREENSHOTS_WHOLE=1 GODWIT_SCREENSHOTS_LANGUAGES=$(LANGUAGES) $(GO) test -count 1 -run TheConsoleSpeaks ./test/webpage
else
screenshots: $(NODE_MODULES) chromium ## make the pictures of the documentation anew, in a real browser, and of all pages in dist/pictures (LANGUAGES=de,hi: all in these, in dist/screenshots)
	cd $(JS) && SCREENSHOTS=$(CURDIR)/docs/guides/images npm test --silent -- test/prompt.test.ts test/inboxpictures.test.ts -t readable
	@mkdir -p $(DIST)/pictures
	GODWIT_TEST_STRICT=1 GODWIT_SCREENSHOTS=$(DIST)/pictures $(GO) test -count 1 ./test/webpage
	@for f in docs/images/web/*.png; do cp $(DIST)/pictures/$${f##*/} $$f || exit 1; done
endif

# To build Helm and Prometheus takes minutes.
.PHONY: deploy-test
deploy-test: ## read the Dockerfile, the Compose file, the Helm chart, the board and the alerts as their own tools do, and try them, if they changed
	@if $(call unchanged,deploy); then echo "deploy: tested as it is"; else $(MAKE) --no-print-directory deploy-test-all; fi

.PHONY: deploy-test-all
deploy-test-all: haproxy prometheus packers $(GOLANGCI_LINT) $(NFPM) $(NODE_MODULES) $(PYTHON_VENV) $(WHEELS)
	cd deploy && golangci-lint run --allow-parallel-runners ./...
	cd deploy && $(GO) test -count 1 ./...
	@$(call digest,deploy) >deploy/tested

.PHONY: check
check: fmt-check lint generate-check test attack ## what CI runs: format, lint, generate and diff, test

.PHONY: check-all
check-all: export GODWIT_TEST_THOROUGH := 1
check-all: export GOFLAGS := $(GOFLAGS) -count=1
check-all: check ## the same thoroughly, and with the race detector everywhere
	@$(MAKE) --no-print-directory deploy-test-all
	@$(MAKE) --no-print-directory kotlin-test-all
	@$(MAKE) --no-print-directory go-test RACED=./... ON_DISK=1

.PHONY: fmt
fmt: $(GOFUMPT) $(NODE_MODULES) ## format the code
	gofumpt -l -w $(SOURCES)
	cd $(JS) && npm run --silent format

.PHONY: fmt-check
fmt-check: $(GOFUMPT)
	@unformatted=$$(gofumpt -l $(SOURCES)); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

# The linter collects garbage less often than it would by itself: a quarter of its time, while there is memory.
.PHONY: lint
lint: $(GOLANGCI_LINT) $(NODE_MODULES) ## run the linters
	GOGC=400 GOMEMLIMIT=6GiB golangci-lint run --allow-parallel-runners ./...
	cd api && $(BUF) lint
	cd $(JS) && npm run --silent lint && npm run --silent types

.PHONY: generate
generate: $(PROTOC_GO) $(PROTOC_GRPC) $(NODE_MODULES) ## make the generated code and pages anew
	cd api && $(BUF) generate
	$(GO) generate ./...
	cd $(JS) && npm run --silent bundle
	@$(MAKE) --no-print-directory python-generate

.PHONY: python-generate
python-generate: $(PYTHON_VENV)
	cd api && $(PYTHON)/python -m grpc_tools.protoc -I . --python_out=../clients/python/src --pyi_out=../clients/python/src godwit/v1/client.proto godwit/v1/publisher.proto godwit/v1/gateway.proto

# A generator must reproduce what is committed, byte for byte.
.PHONY: generate-check
generate-check: generate
	@git diff --exit-code -- api docs deploy internal/server/sdk/dist clients/python/src/godwit/v1 ':(glob)**/*.pb.go' || \
		{ echo "generated files differ: commit what make generate made"; exit 1; }

# How the Go benchmarks run: six times each is what benchstat needs to tell a change from noise.
BENCHFLAGS ?= -benchmem -count 6

.PHONY: bench
bench: $(BENCHSTAT) ## run the Go benchmarks of the hot functions and compare with bench/baseline.txt
	@mkdir -p $(BIN)/bench
	$(GO) test -run '^$$' -bench . -timeout 60m $(BENCHFLAGS) $(PACKAGES) | grep -v '^?' | tee $(BIN)/bench/new.txt
	benchstat bench/baseline.txt $(BIN)/bench/new.txt

# The program once more, without the module of the documentation.
.PHONY: docs-size
docs-size: build ## say how much larger the program is with its documentation inside
	@mkdir -p $(BIN)/docs-size
	@sed '/docsite/d' internal/server/modules/modules.go >$(BIN)/docs-size/modules.go
	@echo '{"Replace":{"$(CURDIR)/internal/server/modules/modules.go":"$(BIN)/docs-size/modules.go"}}' >$(BIN)/docs-size/overlay.json
	@$(GO) build -overlay $(BIN)/docs-size/overlay.json -ldflags '-s -w' -o $(BIN)/docs-size/godwit ./cmd/godwit
	@with=$$(wc -c <$(BIN)/godwit); without=$$(wc -c <$(BIN)/docs-size/godwit); pages=$$(cat docs/README.md docs/comparison.md docs/migration.md docs/guides/*.md docs/reference/*.md docs/migrate/*.md | wc -c); \
		awk -v with=$$with -v without=$$without -v pages=$$pages 'BEGIN {printf "with its documentation %.2f MB, without %.2f MB: %.2f MB more, of which the pages are %.2f MB\n", with/1e6, without/1e6, (with-without)/1e6, pages/1e6}'

.PHONY: bench-baseline
bench-baseline: ## make the results of the last `make bench` the baseline
	grep -E '^(goos|goarch|pkg|cpu|Benchmark)' $(BIN)/bench/new.txt >bench/baseline.txt

.PHONY: bench-compare
bench-compare: build ## measure Godwit beside other servers, as far as they are installed (make rivals)
	@mkdir -p $(BIN)/bench
	$(BIN)/godwit bench compare --report $(BIN)/bench/compare.html

# The committed results: NAME=what bench is told. Each is bounded in time; all of them take about a quarter of an hour on
# a machine that does nothing else. Those named -ram have the stores on a RAM disk: what the server makes of it, not the disk.
RESULTS := idle idle-tls accept storm unicast-200 unicast-4k unicast-paced unicast-stubs fanout topics topics-storm topics-slow topics-slow-ram gateway docs slow slow-ram sla sla-ram objects-recovery small-200 small-paced small-idle
RESULT_idle          := idle --runs 1 --sessions 10000 --settle 30s
RESULT_idle-tls      := idle --runs 1 --sessions 10000 --settle 30s --transports ws-json --tls
RESULT_accept        := accept --clients 15000
RESULT_storm         := storm --runs 1 --clients 15000 --settle 20s
RESULT_unicast-200   := unicast --runs 1 --size 200 --publishers 64
RESULT_unicast-4k    := unicast --runs 1 --size 4096 --publishers 64
RESULT_unicast-paced := unicast --runs 1 --size 4096 --rate 1000
RESULT_unicast-stubs := unicast --runs 1 --size 200 --publishers 64 --stubs 2000000
RESULT_fanout        := fanout --runs 1 --clients 5000 --size 200
RESULT_topics        := topics --runs 3 --clients 2000 --size 200 --rate 50
RESULT_topics-storm  := topics --runs 1 --clients 2000 --size 200
RESULT_topics-slow   := topics-slow --pairs 7
RESULT_gateway       := gateway --runs 5 --for 2s
RESULT_docs          := docs --runs 3
RESULT_slow          := slow --for 5s --warmup 1s
RESULT_objects-recovery := objects recovery
RESULT_sla           := sla --runs 1
RESULT_slow-ram      := $(RESULT_slow) --data-dir /dev/shm
RESULT_topics-slow-ram := $(RESULT_topics-slow) --data-dir /dev/shm
RESULT_sla-ram       := $(RESULT_sla) --data-dir /dev/shm
# On PostgreSQL beside SQLite, and several nodes: servers of PostgreSQL are started for them (make postgresql).
CLUSTER_RESULTS := cluster-store-200 cluster-store-4k cluster-unicast-200 cluster-unicast-4k cluster-paced cluster-storm cluster-objects cluster-nodes cluster-route cluster-commits cluster-idle
RESULT_cluster-store-200   := store --postgres start --runs 3 --size 200
RESULT_cluster-store-4k    := store --postgres start --runs 2 --size 4096
RESULT_cluster-unicast-200 := unicast --postgres start --runs 3 --size 200 --publishers 256
RESULT_cluster-unicast-4k  := unicast --postgres start --runs 3 --size 4096 --publishers 256
RESULT_cluster-paced       := unicast --postgres start --runs 3 --size 4096 --rate 500
RESULT_cluster-storm       := storm --postgres start --runs 1 --clients 10000 --settle 20s
RESULT_cluster-objects     := objects latency --postgres start --runs 2 --rates 1,5,25 --for 5s
RESULT_cluster-nodes       := cluster nodes --pairs 5
RESULT_cluster-route       := cluster route --pairs 5
RESULT_cluster-commits     := cluster commits --pairs 5
WITHIN_cluster-commits     := 900
RESULT_cluster-idle        := cluster idle --runs 3 --sessions 19500
WITHIN_cluster-idle        := 900

# Beside other servers (make rivals), up to five minutes each, and what takes minutes: made only when it is asked for.
RESULT_matrix := matrix
WITHIN_matrix := 400
# Over MQTT alone, beside Mosquitto: eleven minutes.
RESULT_mqtt := mqtt --runs 3
WITHIN_mqtt := 1200
# Durable sends to the push service, and its idle devices: four minutes.
RESULT_push := push --runs 3
WITHIN_push := 600
# Many connections open, few of them active: six minutes.
RESULT_matrix-open := matrix --open 1000,10000,100000
WITHIN_matrix-open := 1500
RESULT_compare := compare
WITHIN_compare := 400
# ColdNotify's five experiments, with the axes of its thesis: latency, its deviation, CPU time and memory by the rate, and by the number of
# clients; clients that come and register; the registrar's state lost, and the matcher's. Ten minutes on a machine that does nothing else.
EXPERIMENTS := objects-latency objects-clients objects-scale objects-registrar objects-matcher
RESULT_objects-latency := objects latency --runs 1 --rates 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25 --for 8s
WITHIN_objects-latency := 400
RESULT_objects-clients := objects latency --runs 1 --rates 1 --clients 1000,2000,3000,4000,5000,6000,7000,8000,9000,10000,11000,12000,13000 --for 8s
RESULT_objects-scale := objects scale --runs 1
RESULT_objects-registrar := objects recovery --clients 1000 --lost registrations
RESULT_objects-matcher := objects recovery --clients 1000 --lost objects

.PHONY: experiments
experiments: build $(addprefix result-,$(EXPERIMENTS)) ## repeat ColdNotify's five experiments on objects, with plots: ten minutes on a quiet machine
	@mkdir -p $(BIN)/bench
	$(BIN)/godwit bench report $(EXPERIMENTS:%=bench/results/%.json) --report $(BIN)/bench/experiments.html

# What a connection takes by transport, one of 1,000 and one of 10,000: ten minutes.
RESULT_connections := idle --runs 1 --sessions 1000,10000 --transports ws-json,ws-proto,grpc,sse --settle 30s
WITHIN_connections := 900
# A server on one core with a gigabyte, on Linux with two cores at least.
RESULT_small-200 := unicast --runs 1 --size 200 --publishers 64 --cores 1 --memory 1GB
RESULT_small-paced := unicast --runs 1 --size 4096 --rate 1000 --cores 1 --memory 1GB
RESULT_small-idle := idle --runs 1 --sessions 10000 --settle 30s --cores 1 --memory 1GB

.PHONY: bench-results
bench-results: build $(addprefix result-,$(RESULTS)) ## measure anew what bench/results holds and docs/performance.md shows
	$(BIN)/godwit bench report $(RESULTS:%=bench/results/%.json) --report bench/results/report.html

# Five minutes, of which escalations go beside a campaign for two: made only when it is asked for.
RESULT_escalation := escalation --runs 1
WITHIN_escalation := 480

# What a step costs a publish on PostgreSQL: four minutes.
RESULT_cluster-escalation := escalation --postgres start --runs 1 --each 0 --campaign 0 --armed 0 --sends 0
WITHIN_cluster-escalation := 480

# Eleven minutes, and Redis (make redis): made only when it is asked for.
RESULT_nammayatri := nammayatri --runs 1 --pairs 3
WITHIN_nammayatri := 1200

# Two to five minutes, on a PostgreSQL that is started for it: made only when it is asked for.
RESULT_sources := sources --runs 2 --for 5s
WITHIN_sources := 900

# A million inboxes of a hundred items each are filled first, 30 GB: made only when it is asked for.
RESULT_inbox := inbox --runs 1 --recipients 1000000 --pairs 0
WITHIN_inbox := 2400
# What a kept publish costs beside one that is not, in turn: four minutes.
RESULT_inbox-publish := inbox --runs 1 --recipients 0
WITHIN_inbox-publish := 600

# Ten million recipients get one notification each: ten minutes.
RESULT_recipients := recipients --runs 1 --recipients 10000000
WITHIN_recipients := 1500

# An app with a million recipients is filled first: three minutes.
RESULT_console := console --runs 1
WITHIN_console := 600

# What is serial, on a machine that does nothing else: half a minute each.
SERIAL_LOADS := unicast fanout fanout-none topics storm objects campaign gateway
$(foreach l,$(SERIAL_LOADS),$(eval RESULT_serial-$(l) := serial $(l) --runs 3))

.PHONY: serial-results
serial-results: build $(addprefix result-serial-,$(SERIAL_LOADS)) ## measure where CPU time goes and what more cores would bring

# Twenty minutes, so it is made only when it is asked for.
RESULT_cluster-horizon := cluster horizon --runs 1 --before 2m
WITHIN_cluster-horizon := 1500

# Twenty-five minutes and 3 GB of memory, so it is made only when it is asked for.
RESULT_planet := planet --runs 1
WITHIN_planet := 2400

.PHONY: cluster-results
cluster-results: build $(addprefix result-,$(CLUSTER_RESULTS)) ## measure PostgreSQL beside SQLite, and several nodes

# NOTE says what else the machine did meanwhile.
result-%: build
	@mkdir -p bench/results
	@rm -rf bench/results/$*
	timeout $(or $(WITHIN_$*),300) $(BIN)/godwit bench $(RESULT_$*) $(if $(NOTE),--note '$(NOTE)') --json --svg bench/results/$* >bench/results/$*.json.new
	mv bench/results/$*.json.new bench/results/$*.json

.PHONY: idle
idle: build ## measure the server's memory for 10,000 idle sessions on WebSocket and on gRPC
	$(BIN)/godwit bench idle --runs 1 --sessions 10000 --limit 1024 --settle 3m

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (60s)
	@for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: converge
converge: ## prove that objects converge, from a hundred random seeds (GODWIT_SEED=n for one)
	$(GO) test -vet=off -run LatestVersion -timeout 10m ./test/faults

.PHONY: damage
damage: ## damage the files of a real server in 200 ways and see that nothing is lost or altered in silence (SEEDS=n for fewer)
	$(GO) test -count 1 -timeout 40m ./test/faults -run LostOrAltered -seeds $(or $(SEEDS),200)

.PHONY: cluster
cluster: ## kill nodes, cut the bus between two and kill PostgreSQL under load and a campaign, for ten minutes (FOR=1m CHATS=500 for less); then campaigns on three nodes
	GODWIT_TEST_THOROUGH=1 $(GO) test -count 1 -timeout 90m -v ./test/cluster -run 'NothingIsLost|TheHistory|ADatabaseThatSleeps|ATransactionThatStays|AReplicaThatLacks|OthersGoOnPublishing' -failover -stop-rate -stops 5 -sleep-for 60s -hold-for 10m -faults $(or $(FOR),10m) -history $(or $(FOR),10m) -kill-every 20s -cut-for 15s -postgres-kills 10 -chats $(or $(CHATS),10000) -within 5s
	$(GO) test -count 1 -timeout 20m ./test/campaigns -nodes 3

.PHONY: escalation
escalation: ## kill the server twenty times under 10,000 notifications of three steps each, and see that none is missed nor comes after an ack (POSTGRES=1 for what is kept there)
	$(GO) test -count 1 -timeout 30m -v ./test/api -run StepIsMissed -publishes 10000 -kills 20 -kill-every 5s $(if $(POSTGRES),-postgres)

.PHONY: compat
compat: redis ## kill the server twenty times, and a master of a Redis cluster, under 1,000 entries a second for 1,000 clients of nammayatri's notification-service, and see that none is lost
	$(GO) test -count 1 -timeout 30m -v ./test/foreign -run 'ThroughKills|AMasterIsKilled' -fast -kills 20 -kill-every 5s -clients 1000 -rate 1000 -size 4096

.PHONY: sinks
sinks: $(CHDB) ## kill the server ten times under 200,000 events, and stop ClickHouse twice, and see that its engine has each of them once
	GODWIT_CHDB_PYTHON=$(BIN)/chdb/bin/python $(GO) test -count 1 -v ./internal/feeds/sink/clickhouse
	GODWIT_CHDB_PYTHON=$(BIN)/chdb/bin/python $(GO) test -count 1 -timeout 30m -v ./test/api -run TestClickHouse -events 200000 -kills 10

.PHONY: upgrade
upgrade: ## restart three nodes of the commit before as nodes of this one, under load (OF=commit for another)
	GODWIT_TEST_THOROUGH=1 $(GO) test -count 1 -timeout 20m -v ./test/cluster -run AnUpgrade -former -former-of $(or $(OF),HEAD~1)

.PHONY: attack
attack: ## attack the built server from one address, and from one app, and see that nobody else is kept waiting
	$(GO) test -count 1 -timeout 20m -v ./test/attack -ratio

.PHONY: mutate
mutate: redis postgresql ## break the code on purpose and see that the tests notice (SEED=n draws others, RESUME=1 keeps what was noticed before)
	$(GO) run ./tools/mutate -seed $(or $(SEED),1) $(if $(RESUME),-resume)

.PHONY: upgrade-data
upgrade-data: ## make anew the data folders that upgrades are tested with (FORMER=a release's binary, FORMER_COMMIT=where it is from)
	$(GO) test ./test/faults -short -count 1 -run TestMakeFolders -former $(abspath $(FORMER))

# Nobody chose these: whoever reads them sees how the rest reads.
COMMENTS_SEED ?= 20261126

.PHONY: comments
comments: ## print 60 comments that a seed draws, to read whether they are plain
	@$(GO) run ./tools/comments -seed $(COMMENTS_SEED)

.PHONY: map
map: ## print each package with its doc line
	@$(GO) run ./tools/map

# A program in a workspace with this module, as the install guide has one, asks for modules that nothing here is built from; the guide's
# test lets it ask nobody.
.PHONY: modules
modules:
	@$(GO) mod download

# What comes from the registries of Go, npm and pip: make -j4 fetches it all at once.
.PHONY: fetched
fetched: $(GOFUMPT) $(GOLANGCI_LINT) $(GOTESTSUM) $(PROTOC_GO) $(PROTOC_GRPC) $(GRPCURL) $(H2SPEC) $(VENV) $(NODE_ECE) $(NODE_MODULES) $(PYTHON_VENV) $(WHEELS)

# Debian's packages, in turn: apt does one thing at a time.
.PHONY: installed
installed:
	@for tool in $(sort $(filter-out modules /% $(JS)/%,$(TOOLS_BESIDE) $(foreach p,$(TOOL_PACKAGES),$(TOOLS_$p)))); do $(MAKE) --no-print-directory $$tool; done

.PHONY: test-tools
test-tools: $(GOTESTSUM) prometheus $(foreach p,$(TOOL_PACKAGES),$(TOOLS_$p))

.PHONY: devanagari
devanagari: # the font for pictures of pages in Hindi
	@[ -n "$$(fc-list :lang=hi 2>/dev/null)" ] || tools/debian "no font for Hindi found: pictures show boxes" fonts-lohit-deva

# A browser, and the same without windows, where a page takes two thirds of the time.
.PHONY: chromium
chromium:
	@if { command -v chromium && command -v chromium-headless-shell || command -v google-chrome; } >/dev/null; then exit 0; fi; \
	{ command -v chromium >/dev/null || tools/debian "no chromium found: the browser test will be skipped" chromium; } && \
	tools/debian "" chromium-headless-shell || echo "no chromium-headless-shell: all pages are tested in chromium"

# Another maker's browser, for what has to work in more than one.
.PHONY: firefox
firefox:
	@command -v firefox-esr >/dev/null || command -v firefox >/dev/null || tools/debian "no Firefox found: tests in it will be skipped" firefox-esr

# PostgreSQL's programs, which tests start themselves: Debian's package is told not to start a server of its own.
.PHONY: postgresql
postgresql:
	@if command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then exit 0; fi; \
	tools/debian "no PostgreSQL found: tests of the stores on it will be skipped" postgresql-common || exit 1; \
	conf=/etc/postgresql-common/createcluster.conf; [ ! -w $$conf ] || { \
	sed -i 's/^#\?create_main_cluster .*/create_main_cluster = false/' $$conf && tools/debian "" postgresql; }

# Redis, which tests start themselves.
.PHONY: redis
redis:
	@command -v redis-server >/dev/null || tools/debian "no Redis found: tests of its streams will be skipped" redis-server

# MariaDB's server alone, which tests start themselves.
.PHONY: mariadb
mariadb:
	@command -v mariadbd >/dev/null || [ -x /usr/sbin/mariadbd ] || tools/debian "no MariaDB found: tests of outboxes in it will be skipped" mariadb-server-core

# What Godwit is compared with.
.PHONY: rivals
rivals: ## install the servers that bench compares with
	@if command -v nats-server >/dev/null && { command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ]; }; then exit 0; fi; \
	tools/debian "not all of mosquitto and nats-server are found: bench leaves out what is missing, and says so" mosquitto nats-server

# Which tests start themselves, too.
.PHONY: haproxy
haproxy:
	@command -v haproxy >/dev/null || [ -x /usr/sbin/haproxy ] || tools/debian "no HAProxy found: tests of several nodes behind it will be skipped" haproxy

# Maven, and the Java that it brings along.
.PHONY: maven
maven:
	@command -v mvn >/dev/null || tools/debian "no Maven found: install Maven 3.8 and a JDK of 17 or newer" maven default-jdk-headless
	@command -v mvn >/dev/null # the Kotlin client is built with it

# PHP's command line, under which the plug-in for WordPress is run.
.PHONY: php
php:
	@php -r 'exit((int)!extension_loaded("pdo_sqlite"));' 2>/dev/null || tools/debian "no PHP with SQLite found: tests of the plug-in for WordPress will be skipped" php-cli php-sqlite3

# Its clients and the broker, which a test starts itself.
.PHONY: mosquitto
mosquitto:
	@if command -v mosquitto_sub >/dev/null && { command -v mosquitto >/dev/null || [ -x /usr/sbin/mosquitto ]; }; then exit 0; fi; \
	tools/debian "not all of mosquitto and its clients are found: tests of MQTT will be skipped" mosquitto mosquitto-clients

# Debian's package is unpacked, not installed: 8 MB. The plug-in that lets WordPress keep its data in SQLite comes with npm's Playground; it reads a
# property that WordPress before 6.2 lacks. WordPress looks for its settings beside its folder: they are those that a test names.
.PHONY: wordpress
wordpress:
	@if [ -e $(WORDPRESS) ]; then exit 0; fi; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then $(MAKE) --no-print-directory $(WORDPRESS); \
	else echo "no WordPress found: tests of the plug-in in it will be skipped"; fi

$(WORDPRESS):
	@rm -rf $(@D) && mkdir -p $(@D)
	apt-get update -qq && cd $(@D) && apt-get download -qq wordpress && dpkg -x wordpress_*.deb deb
	cd $(@D) && mv deb/usr/share/wordpress core && rm -rf deb wordpress_*.deb core/wp-config.php core/.htaccess
	cd $(@D) && npm pack --silent @wp-playground/cli@$(WP_SQLITE) >/dev/null && tar -xzf *.tgz package/sqlite-database-integration.zip && rm *.tgz
	cd $(@D) && echo "$(WP_SQLITE_SUM)  package/sqlite-database-integration.zip" | sha256sum --quiet --check
	cd $(@D) && python3 -m zipfile -e package/sqlite-database-integration.zip . && rm -r package && mv plugin-sqlite-database-integration sqlite-database-integration
	cd $(@D) && sed -i "s/->__get( 'allow_unsafe_unquoted_parameters' )/->allow_unsafe_unquoted_parameters/" sqlite-database-integration/wp-includes/sqlite/class-wp-sqlite-db.php
	cd $(@D) && echo "<?php require getenv( 'GODWIT_WORDPRESS_CONFIG' );" >wp-config.php && echo '<?php' >core/wp-content/db.php
	@touch $@

# Which a test starts itself.
.PHONY: prometheus
prometheus:
	@command -v prometheus >/dev/null && command -v promtool >/dev/null || tools/debian "no Prometheus found: tests of the board and the alerts will be skipped" prometheus

# What reads packages, signs and parses a formula.
.PHONY: packers
packers:
	@if command -v rpm >/dev/null && command -v minisign >/dev/null && command -v ruby >/dev/null; then exit 0; fi; \
	tools/debian "not all of rpm, minisign and ruby are found: tests of packages will be skipped" rpm minisign ruby

.PHONY: clean
clean: ## remove the tools and binaries under .bin
	rm -rf $(BIN)

# As everything is built, so that they share the standard library.
TOOLFLAGS = GOFLAGS='$(BUILDFLAGS)' $(LESS_GARBAGE)

# go-tool NAME MODULE-PATH: installs the version that the stamp file's name carries. Go keeps what it runs, so another clone need not link it again.
COPY_PROGRAM = $(TOOLFLAGS) $(GO) run -exec 'install -m 755'
define go-tool
	@mkdir -p $(BIN); rm -f $(BIN)/.$(1)-*
	@echo "installing $(1)"
	$(COPY_PROGRAM) $(2)@$(patsubst .$(1)-%,%,$(notdir $@)) $(BIN)/$(1)
	@touch $@
endef

$(GOLANGCI_LINT): ; $(call go-tool,golangci-lint,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(GOFUMPT):       ; $(call go-tool,gofumpt,mvdan.cc/gofumpt)
$(GOTESTSUM):     ; $(call go-tool,gotestsum,gotest.tools/gotestsum)
$(PROTOC_GRPC):   ; $(call go-tool,protoc-gen-go-grpc,google.golang.org/grpc/cmd/protoc-gen-go-grpc)
$(GRPCURL):       ; $(call go-tool,grpcurl,github.com/fullstorydev/grpcurl/cmd/grpcurl)
$(NFPM):          ; $(call go-tool,nfpm,github.com/goreleaser/nfpm/v2/cmd/nfpm)
$(BENCHSTAT):     ; $(call go-tool,benchstat,golang.org/x/perf/cmd/benchstat)

# Not through go-tool: its clean-up of old stamps would match protoc-gen-go-grpc's too.
$(PROTOC_GO):
	@mkdir -p $(BIN)
	$(COPY_PROGRAM) google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 $(BIN)/protoc-gen-go
	@touch $@

$(NODE_MODULES): $(JS)/package-lock.json
	cd $(JS) && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

# h2spec has no go.mod of its own; ours pins it and what it is built with.
$(H2SPEC): go.mod
	@mkdir -p $(BIN)
	$(COPY_PROGRAM) github.com/summerwind/h2spec/cmd/h2spec $(BIN)/h2spec
	@touch $@

# The Python clients that the black-box suite talks with.
$(VENV): test/foreign/requirements.txt $(PYTHON_VENV)
	python3 -m venv --clear --without-pip $(BIN)/venv
	$(call python-packages,$(BIN)/venv)
	@touch $@

# ClickHouse's engine: half a gigabyte, so nothing but make sinks installs it. What it would bring along for tables of Python is not needed.
$(CHDB): test/api/requirements-chdb.txt
	@mkdir -p $(BIN)
	python3 -m venv --clear $(BIN)/chdb
	$(BIN)/chdb/bin/pip install --quiet --disable-pip-version-check --no-deps -r $<
	@touch $@

# The Python client's tools and dependencies.
$(PYTHON_VENV): clients/python/requirements-dev.txt
	@mkdir -p $(BIN)
	python3 -m venv --clear $(BIN)/python
	$(PYTHON)/python -m pip install --no-compile --quiet --disable-pip-version-check uv==0.13.9
	$(call python-packages,$(BIN)/python)
	@touch $@

# python-packages FOLDER: installs what the first prerequisite lists. uv takes a sixth of pip's time, but does not read pip's settings: pip does it
# where uv cannot.
python-packages = $(PYTHON)/uv pip install --quiet --python $1/bin/python -r $< || \
	$(PYTHON)/python -m pip --python $1/bin/python install --no-compile --quiet --disable-pip-version-check -r $<

$(WHEELS): $(PYTHON_VENV) clients/python/pyproject.toml
	rm -rf $(BIN)/wheels && mkdir -p $(BIN)/wheels
	$(PYTHON)/python -m pip download --quiet --disable-pip-version-check --only-binary :all: --dest $(BIN)/wheels hatchling==1.33.0 websockets==17.4
	@touch $@

# The JavaScript decryption that the black-box suite holds ours to, and mqtt.js.
$(NODE_ECE): test/foreign/package-lock.json
	@mkdir -p $(BIN)/node
	cp test/foreign/package.json test/foreign/package-lock.json $(BIN)/node/
	cd $(BIN)/node && npm ci --loglevel=error --no-audit --no-fund
	@touch $@
