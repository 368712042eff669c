# SPDX-License-Identifier: Apache-2.0
# A short way to CMake's presets; everything here can be done with cmake, ctest and tools/packages alone.

PREFIX ?= /usr/local
DESTDIR ?=
NVCC := $(shell command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null)
# The demo waits for the compilation of GPU kernels only where they can run.
DEMO := $(if $(and $(NVCC),$(wildcard /dev/nvidia[0-9]*)),cuda,release)
# The CUDA build has all that the plain one has.
TESTED := $(if $(NVCC),cuda,release)
PYTHON_PARTS = -DCONVT_PYTHON=ON -DCONVT_TORCH_PYTHON=$(CURDIR)/.venv/bin/python
CONFIGURE = cmake --preset $(1) $(if $(CONVT_WERROR),-DCONVT_WERROR=$(CONVT_WERROR))
SOURCES = git ls-files -z --cached --others --exclude-standard -- '*.h' '*.hpp' '*.c' '*.cpp' '*.cu' '*.cuh'
export CTEST_PARALLEL_LEVEL ?= $(shell nproc)

.PHONY: build demo wheel test test-arm test-python-full test-gpu sanitize-gpu bench bench-gpu install format lint tidy \
        clean help need-nvcc

build: ## build build/release/libconvt.so and build/release/convt (the default)
	$(call CONFIGURE,release)
	cmake --build --preset release --target convt convt_cli

demo: ## install what the build needs, build, and check and time the five problems; on a GPU where there is one
	tools/packages demo
	$(call CONFIGURE,$(DEMO))
	cmake --build --preset $(DEMO) --target convt convt_cli
	build/$(DEMO)/convt demo

wheel: ## build the Python package into build/dist, check it, and try it in an environment of its own
	tools/packages wheel
	tools/wheel $(WHEEL_OPTIONS)

test: ## install what the tests need, build and run them; where nvcc is found, of the CUDA build
	tools/packages test
	tools/packages python
	$(call CONFIGURE,$(TESTED)) -DCONVT_TESTS=ON $(PYTHON_PARTS)
	cmake --build --preset $(TESTED)
	ctest --preset $(TESTED)

test-arm: ## build for 64-bit Arm by a cross compiler, and check random cases on NEON under qemu
	tools/packages arm
	$(call CONFIGURE,aarch64)
	cmake --build --preset aarch64 --target convt convt_cli
	CONVT_ISA=neon qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/convt verify --cases 1500 --seed 1

test-python-full: ## every test of the Python package, on the newest PyTorch and on 2.11
	tools/packages test
	tools/packages python
	tools/packages torch-2.11
	$(call CONFIGURE,release) -DCONVT_CUDA=OFF $(PYTHON_PARTS)
	cmake --build --preset release --target convt convt_cli convt_python
	tests/python/run --full build/release
	CONVT_VENV=.venv-torch-2.11 tests/python/run --full build/release

test-gpu: need-nvcc ## the CUDA build's tests on a GPU; each says that it was skipped where there is none
	tools/packages test
	$(call CONFIGURE,cuda) -DCONVT_TESTS=ON -DCONVT_PYTHON=ON \
	  -DCONVT_TORCH_PYTHON="$$(tests/python/run --gpu-python || command -v python3)"
	cmake --build --preset cuda --target convt_cli convt_gpu_tests convt_python
	ctest --preset cuda --label-regex gpu
	tests/python/run --gpu build/cuda || [ $$? = 77 ]

sanitize-gpu: need-nvcc ## some of them under compute-sanitizer
	tools/packages test
	$(call CONFIGURE,cuda) -DCONVT_TESTS=ON
	cmake --build --preset cuda --target convt_gpu_tests
	tools/sanitize-gpu build/cuda/tests/convt_gpu_tests

bench: ## install the peers, build, check and time against them; RECORD=1 renews docs/performance.md
	tools/packages bench
	$(call CONFIGURE,release) -DCONVT_CUDA=OFF $(PYTHON_PARTS)
	cmake --build --preset release --target convt convt_cli convt_python
	.venv/bin/python bench/cpu.py $(if $(RECORD),--record)
	.venv/bin/python bench/python_calls.py
	CONVT_LIBRARY=build/release/libconvt.so CONVT_TORCH_LIBRARY=build/release/torch_ext/libconvt_torch.so \
	  .venv/bin/python bench/torch_calls.py

bench-gpu: need-nvcc ## the same on a GPU, against PyTorch; RECORD=1 renews docs/performance.md
	tools/packages bench
	$(call CONFIGURE,cuda)
	cmake --build --preset cuda --target convt
	.venv/bin/python bench/gpu.py --library build/cuda/libconvt.so $(if $(RECORD),--record)

install: build ## install below PREFIX (/usr/local), staged in DESTDIR if set
	DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(PREFIX)

format: ## format every C and C++ file in place
	tools/packages lint
	$(SOURCES) | xargs -0r clang-format -i

lint: ## check formatting, file headers and lengths, and the direction of includes
	tools/packages lint
	$(SOURCES) | xargs -0r clang-format --dry-run -Werror
	python3 tools/check_rooms.py
	python3 tools/check_style.py

tidy: ## run clang-tidy over the library and the command
	tools/packages lint
	tools/packages demo
	$(MAKE) build
	run-clang-tidy -quiet -p build/release '^$(CURDIR)/(src|cli)/'

need-nvcc:
	$(if $(NVCC),,$(error no nvcc here: install a CUDA toolkit))

clean: ## remove every build
	rm -rf build

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22
