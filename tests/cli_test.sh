#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The convt command: what it prints, where, and its exit codes.
#   cli_test.sh path/to/convt [path/to/cli_fault.so]
# With the second, built from cli_fault.c, also that its checks can fail.
set -u
export LC_ALL=C
unset CONVT_ENGINE CONVT_ISA
export CUDA_VISIBLE_DEVICES= # tests/gpu/cli_test.sh is for machines with a GPU

convt=${1:?usage: cli_test.sh path/to/convt [path/to/cli_fault.so]}
fault=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
checks=0
failures=0

fail() {
  failures=$((failures + 1))
  printf 'FAIL %s: %s\n' "$ran" "$1"
  sed 's/^/  stdout: /' "$folder/out" | tail -n 12
  sed 's/^/  stderr: /' "$folder/err" | tail -n 12
}

# run ARGUMENTS...: keeps its output for the checks that follow.
run() {
  ran="convt $*"
  "$convt" "$@" >"$folder/out" 2>"$folder/err"
  code=$?
}

# The checks. Patterns are those of grep -E.
exits() { checks=$((checks + 1)); [ "$code" -eq "$1" ] || fail "exit code $code, expected $1"; }
prints() { checks=$((checks + 1)); grep -Eq -- "$1" "$folder/out" || fail "stdout has no '$1'"; }
prints_not() { checks=$((checks + 1)); ! grep -Eq -- "$1" "$folder/out" || fail "stdout has '$1'"; }
lines() { checks=$((checks + 1)); [ "$(wc -l <"$folder/out")" -eq "$1" ] || fail "stdout has not $1 lines"; }
same_as() { checks=$((checks + 1)); cmp -s "$folder/out" "$1" || fail "stdout is not as before"; }
says() { checks=$((checks + 1)); grep -Eq -- "$1" "$folder/err" || fail "stderr has no '$1'"; }
silent() { checks=$((checks + 1)); [ ! -s "$folder/err" ] || fail "stderr is not empty"; }

# good ARGUMENTS...: succeeds and does not complain.
good() { run "$@"; exits 0; silent; }
# bad CODE PATTERN ARGUMENTS...: prints nothing, and complains on one line that begins with "convt: ".
bad() {
  local expected=$1 pattern=$2
  shift 2
  run "$@"
  exits "$expected"
  lines 0
  says "^convt: .*$pattern"
  checks=$((checks + 1))
  [ "$(wc -l <"$folder/err")" -eq 1 ] || fail "stderr has not one line"
}

small='conv_transpose2d channels=3->8 input=5x4 kernel=3 stride=2 padding=1 | bias | gelu'

# ---- help and version
good --help
prints 'Exit codes: 0 ok, 1 a check failed, 2 bad usage or bad case, 3 '
for subcommand in problems ops explain demo verify version; do
  good --help
  prints "^  $subcommand "
  good "$subcommand" --help
  prints 'Usage: convt '
done
good version
prints '^convt [0-9]+\.[0-9]+\.[0-9]+$'
cp "$folder/out" "$folder/version"
good --version
same_as "$folder/version"
bad 2 'a subcommand is required'
bad 2 'frobnicate' frobnicate
bad 2 'extra' version extra
bad 2 'not expected: one two three;' version one two three
bad 2 'not expected: --one two;' version --one two
bad 2 'frob' version --frob

# ---- problems and ops
good problems
for slug in conv-transpose-2d-square-input-asym-kernel conv-transpose-3d-asym-input-sq-kernel \
    conv-transpose3d-max-max-sum conv-transpose3d-layernorm-gelu-scaling conv-transpose3d-sum-layernorm-avgpool-gelu; do
  prints "^$slug\$"
done
prints 'bias \| max_pool\(2\) \| max_pool\(3\) \| sum'
prints 'batch=16 channels=32->64 input=32 kernel=5 stride=2 padding=2'
good ops
for op in bias leaky_relu layer_norm max_pool softmax; do prints "^$op"; done
good ops leaky_relu
prints 'leaky_relu\(slope=0.01\)'
prints 'in PyTorch'
prints '^  leaky_relu\(0.2\)$'
bad 2 "'leakyrelu': did you mean 'leaky_relu'" ops leakyrelu
bad 2 "'gelo': did you mean 'gelu'" ops gelo
bad 2 "'frobnicate'; convt ops lists them" ops frobnicate

# ---- explain
good explain "$small"
prints 'conv_transpose2d dtype=f32 batch=1 channels=3->8 input=5x4 kernel=3 stride=2 padding=1 \| bias \| gelu'
prints '1x8x9x7'
prints 'chosen +cpu [a-z0-9]+$'
good explain "$small" --engine reference --device cpu
prints 'chosen +reference$'
good explain conv-transpose3d-max-max-sum
prints 'output +16x1x10x10x10'
printf '%s\n\n# a comment\n  %s\n' "$small" 'conv_transpose1d channels=1->1 input=3 kernel=2' >"$folder/cases"
good explain - <"$folder/cases"
prints '^conv_transpose2d'
prints '^conv_transpose1d'
prints_not comment
bad 2 'CASE is required' explain
bad 2 'column 18.*chanels.*channels' explain 'conv_transpose2d chanels=3->8 input=5 kernel=3'
bad 2 'column 67.*frelu' explain 'conv_transpose2d channels=3->8 input=5 kernel=3 stride=2 | bias | frelu'
bad 2 'column 28.*->' explain 'conv_transpose2d channels=3'
bad 2 'kernel' explain 'conv_transpose1d channels=1->1 input=3 kernel=0'
bad 2 'output_padding' explain 'conv_transpose1d channels=1->1 input=3 kernel=2 output_padding=1'
bad 2 'column 1:' explain no-such-problem
bad 2 "did you mean 'conv-transpose3d-max-max-sum'" explain conv-transpose3d-max-max-sun
bad 2 'nonsuch' explain "$small" --engine nonsuch
bad 2 'gpu' explain "$small" --device gpu
bad 2 'cuda:x' explain "$small" --device cuda:x
bad 3 '' explain "$small" --device cuda:0 --engine reference
printf 'conv_transpose1d channels=1->1 input=3 kernel=2 stride=\n' >"$folder/cases"
bad 2 'line 1: .*column 56' explain - <"$folder/cases"
bad 2 'standard input' explain - </dev/null
bad 3 'cannot read standard input: Is a directory' explain - <"$folder"
bad 3 'cannot read standard input: Bad file' explain - <&-

# ---- control bytes of what it was given do not reach the terminal
escape=$(printf '\033')
for text in "$escape[31mgelu" "${escape}c"; do
  bad 2 '\\x1b' ops "$text"
  bad 2 '\\x1b' frobnicate "$text"
  bad 2 '\\x1b' explain "$small" --device "$text"
  bad 2 '\\x1b' explain "$small" --engine "$text"
  bad 2 '' explain "$text"
  checks=$((checks + 1))
  ! grep -q "$escape" "$folder/err" || fail 'stderr has an escape character'
done

# ---- output that cannot be written is an error, wherever it is noticed; and an error is one without a place to tell it
for arguments in --help --version version ops problems "verify --cases 2 --seed 1" "verify --list --cases 2000 --seed 1"; do
  ran="convt $arguments >/dev/full"
  : >"$folder/out"
  "$convt" $arguments >/dev/full 2>"$folder/err"
  code=$?
  exits 3
  says '^convt: cannot write to standard output: No space left on device$'
  ran="convt $arguments >&-"
  "$convt" $arguments >&- 2>"$folder/err"
  code=$?
  exits 3
  says '^convt: cannot write to standard output: '
done
ran='convt ops nonsuch, without standard error'
"$convt" ops nonsuch >"$folder/out" 2>/dev/full
code=$?
exits 2
"$convt" ops nonsuch >"$folder/out" 2>&-
code=$?
exits 2
lines 0

# ---- demo
fits() { checks=$((checks + 1)); ! grep -Eq '.{101}' "$folder/out" || fail 'a line has more than 100 columns'; }
five_ok() { checks=$((checks + 1)); [ "$(grep -c ' ok$' "$folder/out")" -eq 5 ] || fail 'not five ok'; }
run demo --repeat 1 --reduced
exits 0
for column in problem time GFLOP/s error checked verdict; do prints "^problem.* $column|^$column"; done
prints 'REDUCED'
prints '^conv-transpose3d-max-max-sum .* 8  ok$'
prints '^  1x32x8x8x8 k5 s2 p2 -> 1x1x2x2x2, engine cpu'
prints_not FAIL
five_ok
fits
says '^5 of 5, conv-transpose3d-.*: checking the result$'
run demo --repeat 1 --reduced --device cpu --dtype bf16
exits 0
five_ok
bad 2 'f8' demo --dtype f8
bad 2 'repeat' demo --repeat 0
bad 2 'device.*gpu' demo --device gpu
bad 3 'no CUDA' demo --device cuda

# ---- verify
good verify --list --cases 4000 --seed 1
# Axes in any combination, kept values inside of others' use, and broadcasts of them through pools and reductions.
for chain in '=h\)' '=d\)' '=hw\)' '=dhw\)' '=cdhw\)' 'keep\(a\).*keep\(b\)' 'keep\(x\).*keep\(gate_2\).*\(x\)' \
  'keep\(b\).*global_avg_pool \| mul\(b\)' 'keep\(a\).*axes=[cdhw]+\) \| sigmoid \| [a-z]+\(a\)'; do
  prints "$chain"
done
# What they make of sums that should be 0, and are not quite: divisions by them, and powers.
for seed in 9547 13837 14351 56545 64258 111516 113977 114509; do good verify --cases 1 --seed $seed --chain-length 9; done
good verify --cases 50 --seed 1
prints '^seed 1, 50 random cases$'
prints '^50 passed, 0 failed$'
prints '^engine cpu: 50 cases$'
good verify --cases 50 --seed 1 --engine reference
prints '^50 passed, 0 failed$'
prints '^engine reference: 50 cases$'
good verify --cases 5
prints '^seed [0-9]+, 5 random cases$'
good verify --seed 3 "$small" 'conv_transpose1d dtype=f64 channels=1->1 input=3 kernel=2'
prints '^2 passed, 0 failed$'
good verify 'conv_transpose1d batch=0 channels=1->1 input=3 kernel=2 | bias'
prints '^1 passed, 0 failed$'
bad 2 'cases' verify --cases 0
bad 2 'seed' verify --seed x
bad 2 'seed.*from 0 to 2.64 - 1 .got .-1' verify --seed -1
bad 2 'seed.*18446744073709551616' verify --seed 18446744073709551616
bad 2 'seed' verify --seed 0x10
bad 2 'seed.*-1' demo --seed -1
good verify --seed 18446744073709551615 --cases 2
prints '^seed 18446744073709551615, 2 random cases$'
good verify --seed 010 --cases 1
prints '^seed 10, 1 random cases$'
bad 2 'f8' verify --dtype f8
bad 2 'random cases' verify --cases 3 "$small"
bad 2 'device.*cuda:x' verify --device cuda:x
bad 3 'no CUDA' verify --device cuda:7
run verify 'conv_transpose1d channels=1->1 input=3'
exits 2
says '^convt: .*kernel= is missing'

# ---- every instruction set is one that can be asked for, and no other
export CONVT_ISA=nonsuch
bad 2 'CONVT_ISA: .* which have .*scalar \(got .nonsuch.\)' explain "$small"
isas=$(sed -n 's/.* which have \(.*\) (got .*/\1/p' "$folder/err" | tr -d ,)
for CONVT_ISA in $isas; do
  good explain "$small"
  prints "chosen +cpu $CONVT_ISA\$"
  good verify --cases 200 --seed 11
  prints '^200 passed, 0 failed$'
done
unset CONVT_ISA

good verify --list --cases 300 --seed 7
lines 300
cp "$folder/out" "$folder/list"
for word in conv_transpose1d conv_transpose2d conv_transpose3d dtype=f64 dtype=f16 dtype=bf16 groups= dilation= \
    output_padding= channels_last '->channels_last' '\| .* \| .* \| .* \|'; do prints "$word"; done
good verify --list --cases 300 --seed 7
same_as "$folder/list"
good verify --list --cases 1 --seed 17 # case 10 of seed 7
sed -n 11p "$folder/list" >"$folder/one"
same_as "$folder/one"
good verify --list --cases 40 --seed 1 --dtype bf16 --chain-length 0
checks=$((checks + 1)); [ "$(grep -c dtype=bf16 "$folder/out")" -eq 40 ] || fail "not all bf16"
prints_not '\|'
head -n 40 "$folder/list" >"$folder/cases"
good verify - --seed 5 <"$folder/cases"
prints '^40 passed, 0 failed$'

# ---- the checks can fail
if [ -n "$fault" ]; then
  faulty() {
    ran="convt verify, with fault $1"
    CONVT_CLI_FAULT=$1 LD_PRELOAD=$fault "$convt" verify --seed 3 --cases 12 --dtype f32 >"$folder/out" 2>"$folder/err"
    code=$?
    exits 1
    prints "$2"
    prints '^[0-9]+ passed, [1-9][0-9]* failed$'
    silent
  }
  faulty value 'against the reference engine'
  faulty everywhere 'against the gathering convolution|reference engine'
  faulty unwritten 'unwritten'
  faulty before 'before the output'
  faulty after 'after the output'
  faulty workspace 'after the workspace'

  ran='convt verify, with the reference wrong in the same way'
  CONVT_CLI_FAULT=everywhere LD_PRELOAD=$fault "$convt" verify --seed 3 \
    'conv_transpose1d dtype=f64 channels=1->1 input=3 kernel=2 | relu' >"$folder/out" 2>"$folder/err"
  code=$?
  exits 1
  prints 'against the gathering convolution'

  # The command that a failure prints repeats it alone.
  ran='the rerun command'
  command=$(sed -n 's/^  rerun: convt //p' "$folder/out" | head -n 1)
  CONVT_CLI_FAULT=everywhere LD_PRELOAD=$fault bash -c "'$convt' $command" >"$folder/again" 2>"$folder/err"
  code=$?
  exits 1
  same_as "$folder/again"

  ran='convt demo, with a fault'
  CONVT_CLI_FAULT=value LD_PRELOAD=$fault "$convt" demo --repeat 1 --reduced >"$folder/out" 2>"$folder/err"
  code=$?
  exits 1
  prints 'FAIL'
  prints 'output.0,0,0.* is '

  # The benchmark's own sizes: here, since sanitizers take too long for them.
  run demo --repeat 1
  exits 0
  prints '^  8x64x512x512 k3x7 -> 8x64x514x518, engine cpu'
  prints_not FAIL
  five_ok
  fits
fi

echo "cli_test: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
