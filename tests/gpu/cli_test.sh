#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The convt command on a GPU.
#   cli_test.sh path/to/convt
# Exits with 77, which ctest counts as skipped, where there is no GPU.
set -u
unset CONVT_ENGINE CONVT_ISA

convt=${1:?usage: cli_test.sh path/to/convt}
if "$convt" verify --device cuda --cases 1 2>&1 | grep -q 'there is no CUDA device'; then
  echo "skipped: no GPU on this machine"
  exit 77
fi

failures=0
# check PATTERN ARGUMENTS...: succeeds, prints what grep -E finds, and does not complain.
check() {
  local pattern=$1 out
  shift
  if ! out=$("$convt" "$@" 2>&1) || ! grep -Eq -- "$pattern" <<<"$out"; then
    failures=$((failures + 1))
    printf 'FAIL convt %s\n%s\n' "$*" "$out"
  fi
}

check 'on CUDA device 0' demo --repeat 1
check 'on CUDA device 0' demo --repeat 1 --dtype bf16
check '^200 passed, 0 failed$' verify --cases 200 --seed 1
check '^200 passed, 0 failed$' verify --cases 200 --seed 1001 --device cuda:0
check '^engine reference: 20 cases$' verify --cases 20 --engine reference
check '^engine cpu: 20 cases$' verify --cases 20 --device cpu
check 'chosen' explain conv-transpose3d-max-max-sum --device cuda
echo "gpu cli_test: $failures failed"
[ "$failures" -eq 0 ]
