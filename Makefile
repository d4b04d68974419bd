# A short front door to CMake and Ninja. `make help` lists what it opens.
PREFIX ?= /usr/local
DESTDIR ?=
CMAKE_FLAGS ?=

.PHONY: all help demo check test test-gpu book bench install format lint clean

all: build/build.ninja
	@cmake --build build

build/build.ninja:
	@cmake -B build -G Ninja $(CMAKE_FLAGS)

help:
	@echo 'make          build/attend and the library (static and shared)'
	@echo 'make demo     install what is missing, build, show what it does'
	@echo 'make check    the tests to run while working: two minutes'
	@echo 'make test     install what is missing, run the whole suite'
	@echo 'make test-gpu libattend-cuda on a machine with nvcc and a GPU'
	@echo 'make book     the tutorial, docs/book, as pages: build/book/index.html'
	@echo 'make bench    time the fixed list of problems: bench/results.csv'
	@echo 'make install  into PREFIX ($(PREFIX)), below DESTDIR if given'
	@echo 'make format   lay out the C files (clang-format)'
	@echo 'make lint     check the rules that a machine can check'
	@echo 'make clean    remove build/ and build-test/'
	@echo 'CMAKE_FLAGS=... passes options on; they are in CMakeLists.txt'

demo:
	@tools/setup demo
	@$(MAKE) --no-print-directory build/build.ninja
	@cmake --build build --target attend_installed
	@tools/demo

check: all
	@ATTEND_TEST_LIGHT=1 ctest --test-dir build -L check -j $$(nproc) \
		--no-tests=error --output-on-failure --progress

test:
	@tools/setup test
	@tools/test

test-gpu:
	@tools/test-gpu

book: all
	@tools/book

bench: all
	build/attend bench --table

install: build/build.ninja
	@cmake --build build --target attend_installed
	DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)'

format:
	@tools/lint --sources | xargs clang-format -i

lint:
	@tools/lint

clean:
	rm -rf build build-test
