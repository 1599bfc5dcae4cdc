# make test installs what it needs into git-ignored folders, and says plainly
# what it cannot install.

GO ?= go
E2E := e2e/node_modules/.installed

.PHONY: build test race lint bench soak e2e fuzz clean python

build:
	$(GO) build -o bin/mcp-gate ./cmd/mcp-gate

# Go gives a package ten minutes, and the end-to-end tests are minutes of work:
# a slow machine that does something else beside may need more.
test: lint python $(E2E)
	$(GO) test -timeout 30m ./...

# The race detector multiplies running times; CI runs it over everything.
race: python $(E2E)
	$(GO) test -race -timeout 60m ./...

lint:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

bench: build
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./bench

# Long rigs: thousands of kills, random faults.
soak: python $(E2E)
	MCP_GATE_SOAK=1 $(GO) test -timeout 60m -run 'Soak|Kill' -v ./...

e2e: python $(E2E)
	$(GO) test -count=1 -v ./e2e

# Every fuzz target there is, each for a while: make fuzz FUZZTIME=10m for longer.
# What fails is tried once more: Go before 1.27 may report the end of the time as
# a failure (golang/go#75804), and what a target found fails again at once.
FUZZTIME ?= 10s

fuzz:
	@for p in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
	  targets=$$($(GO) test -list '^Fuzz' $$p) || { echo "$$targets"; exit 1; }; \
	  for f in $$(echo "$$targets" | grep '^Fuzz'); do \
	    run="$(GO) test -run ^$$f\$$ -fuzz ^$$f\$$ -fuzztime $(FUZZTIME) $$p"; \
	    echo "$$p $$f"; $$run || $$run || exit 1; done; done

python:
	@command -v python3 >/dev/null || { echo "make test needs Python 3 as python3: the replayed cases run a scripted server and client from testdata/cases. Install it (Debian: apt-get install python3) and try again."; exit 1; }

$(E2E): e2e/package.json e2e/package-lock.json
	@command -v npm >/dev/null || { echo "make test needs Node.js 20 or later with npm: the end-to-end tests run real MCP servers from it. Install it (Debian: apt-get install nodejs npm) and try again."; exit 1; }
	cd e2e && npm ci --no-audit --no-fund --loglevel=error
	@touch $(E2E)

clean:
	rm -rf bin e2e/node_modules
