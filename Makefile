# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Two do everything on a fresh machine: `make run` and `make test`.

SHELL := /bin/bash
GO ?= go
TOOLS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/glovebox/tools
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)
FUZZTIME ?= 10s
IMAGE ?= python
ADDR ?=
DEMO_OUT ?= demo-out

.PHONY: test-vm soak large long help setup setup-test build image run demo test vet race escape fuzz bench lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is missing (apt, root; some 110 MB and a minute on a bare Debian 12)
	@scripts/setup

setup-test: ## install also what only the tests need: PostgreSQL, without a service (another 60 MB)
	@scripts/setup test

build: ## build bin/glovebox with the guest program inside (a minute the first time)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o internal/guest/embedded/bin/guest ./cmd/guest
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/glovebox ./cmd/glovebox

image: build ## prepare the image (root; a 500 MB download, 1.5 GB on disk and a minute or two the first time)
	bin/glovebox image build $(IMAGE)

run: setup build ## start the server on loopback; prints its address and token
	@bin/glovebox serve --check $(if $(ADDR),--addr $(ADDR))
	@$(MAKE) --no-print-directory image
	bin/glovebox serve $(if $(ADDR),--addr $(ADDR))

demo: setup image ## a workbook of 100 companies in, the debt ratio of each industry and a chart out
	@scripts/demo $(DEMO_OUT)

test: setup-test image vet race fuzz lint ## every check: all tests, fuzzing in short, lint

vet: ## go vet
	$(GO) vet ./...

race: ## all tests under the race detector, then what was skipped and why
	@scripts/gotest -race -shuffle=on -timeout=25m ./...

escape: ## the attack probes, against a real sandbox (root)
	@scripts/gotest -count=1 -timeout=25m ./test/escapes/...

fuzz: ## every fuzz target for FUZZTIME each
	@FUZZTIME=$(FUZZTIME) scripts/fuzz

bench: image ## measure this program on this host, beside others that do the same work (minutes; root)
	bin/glovebox bench

test-vm: image ## the native backend and doctor on cgroup version 2 alone, in an emulated machine (root, apt; half an hour; not part of CI)
	@scripts/test-vm

soak: build ## half an hour of load; what must stay flat is printed and judged (not part of CI)
	@scripts/soak $(SOAK)

large: build ## a file of 1 GiB into a sandbox and out of it, with the server's memory measured (2 GB of memory; not part of CI)
	@GLOVEBOX_LARGE=1024 scripts/gotest -v -count=1 -run TestLargeFiles ./test/blackbox

long: ## 1,000 sandboxes that are killed while they are made, and 1,000 joins under attack (minutes; root)
	@scripts/gotest -v -count=1 -timeout=60m -run 'TestCyclesLeaveNothing|TestJoins' ./internal/backend/native ./test/escapes -long

lint: $(GOLANGCI) ## golangci-lint (installed once outside the checkout: two minutes, 300 MB of modules)
	$(GOLANGCI) run --timeout=20m ./...

$(GOLANGCI):
	@scripts/install-lint $(GOLANGCI_VERSION) $@

clean: ## delete what was built here; images stay in the data folder
	rm -rf bin build dist demo-out internal/guest/embedded/bin/guest
