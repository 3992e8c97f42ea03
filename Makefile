# SPDX-License-Identifier: Apache-2.0
# The front door; CMake does the work (CMakePresets.json, cmake/).

all: build

build:   ## build/motley: release, stripped
	@scripts/install-dependencies.sh build
	@scripts/build.sh release

run:     ## build, fetch a small chat model, serve it at http://127.0.0.1:8080
	@scripts/run.sh

PREFIX ?= /usr/local
install: build  ## the program to $(DESTDIR)$(PREFIX)/bin: PREFIX=/usr/local, DESTDIR=
	@install -Dm755 build/motley "$(DESTDIR)$(PREFIX)/bin/motley"
	@echo "installed $(DESTDIR)$(PREFIX)/bin/motley"

test:    ## every test, with address and undefined-behaviour sanitizers
	@scripts/test.sh

bench: build  ## tokens per second of MODEL (a file or the name of a pulled model)
	@build/motley bench engine $(MODEL)

fuzz:    ## libFuzzer on every parser; SECONDS=600 each, TARGETS="gguf json"
	@scripts/fuzz.sh $(or $(SECONDS),600) $(TARGETS)

format:  ## put all C code into the project's form
	@scripts/install-dependencies.sh test
	@find src test bench -name '*.[ch]' 2>/dev/null | xargs clang-format-14 -i

clean:   ## forget everything that was built
	@rm -rf build

help:    ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1	/p' Makefile | expand -t 16

.PHONY: all build run install test bench fuzz format clean help
