# SPDX-License-Identifier: Apache-2.0
# A thin front for CMake. Each target does everything it needs; a second run rebuilds nothing.
BUILD ?= build
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
DATA := examples/data/minilm

.PHONY: all setup build run test test-quick test-arm bench install format clean
all: build

setup:
	@tools/setup.sh

build: setup
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release > $(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log
	@cmake --build $(BUILD) -j $(JOBS)

# Attention of one layer of a real transformer on a real text, against another runtime's output.
run: build
	@$(BUILD)/bin/attn run --explain -q $(DATA)/q.npy -k $(DATA)/k.npy -v $(DATA)/v.npy \
	  --reference $(DATA)/out.npy --tolerance 1e-5 -o $(BUILD)/out.npy

# Every test: the release build, then the library under ASan+UBSan and under TSan.
test: build
	@BUILD=$(BUILD) JOBS=$(JOBS) tools/run_tests.sh release asan tsan

test-quick: build
	@BUILD=$(BUILD) JOBS=$(JOBS) tools/run_tests.sh release

# Built for AArch64 and run by qemu, with every extension of its CPU and with the base level alone.
test-arm: setup
	@tools/setup_arm.sh $(BUILD)/arm-sysroot
	@BUILD=$(BUILD) JOBS=$(JOBS) tools/run_tests.sh arm

bench: build
	@$(BUILD)/bin/attn bench --file bench/shapes.txt --backend all

install: build
	@cmake --install $(BUILD)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf $(BUILD)
