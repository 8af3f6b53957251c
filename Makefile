# Everything that must hold before a change lands is "make check"; .ci/run runs
# exactly that. The tools are pinned in tools/go.mod and built on first use.

.DEFAULT_GOAL := check
.NOTPARALLEL:
.PHONY: check fmt fmt-check vet tidy-check lint fuzz simulate test-race test goldens bench build

TOOL := go tool -modfile=tools/go.mod

# The packages where goroutines live. The race detector runs goroutines in random
# order, which a simulation that must replay exactly can't have; the engine that it
# runs is tested with -race in its own packages and in integration.
RACE := . ./holdfasttest/... ./pkg/... ./integration/... \
	$(shell go list ./internal/... | grep -v /internal/simulate$$)

# How many inputs "make fuzz" gives each target. A number, not a time: a fuzz run
# that is ended by its clock now and then reports that as a failure.
FUZZ_INPUTS ?= 20000

SEEDS ?= 300

GOTESTFLAGS ?=

check: fmt-check vet tidy-check lint fuzz simulate test-race test ## everything, in the order in which it fails fastest
	@echo '== check: all passed'

fmt: ## rewrite the Go files as gofumpt wants them
	$(TOOL) gofumpt -w .

fmt-check:
	@echo '== gofumpt'
	@files=$$($(TOOL) gofumpt -l .) || exit 1; \
	if [ -n "$$files" ]; then echo "not formatted; run \"make fmt\":"; echo "$$files"; exit 1; fi

vet:
	@echo '== go vet'
	@go vet ./...

tidy-check:
	@echo '== go mod tidy'
	@go mod tidy -diff

lint: ## golangci-lint, staticcheck among its linters; the first build takes minutes
	@echo '== golangci-lint'
	@$(TOOL) golangci-lint run ./...

fuzz: ## every fuzz target for a moment
	@echo '== fuzz, $(FUZZ_INPUTS) inputs a target'
	@hack/fuzz $(FUZZ_INPUTS)

simulate: ## whole clusters in virtual time, $(SEEDS) of them
	@echo '== simulate, $(SEEDS) seeds'
	@go run ./hack/simulate --seeds $(SEEDS)

test-race:
	@echo '== go test -race'
	@go test -race -timeout 25m $(GOTESTFLAGS) $(RACE)

test:
	@echo '== go test'
	@go test -timeout 25m $(GOTESTFLAGS) ./...

goldens: ## rewrite the goldens of the record format; read the diff: the format is frozen
	go test ./internal/record -run '^TestGoldens$$' -update

bench: ## time and etcd requests of each operation
	go test -run '^$$' -bench . -benchtime 2s ./...

build: ## the worker binary, in bin/
	go build -o bin/ ./cmd/worker
