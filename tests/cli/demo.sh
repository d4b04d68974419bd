#!/usr/bin/env bash
# The demonstration: the argmax example's answer, two heat maps, no colour into
# a pipe.
. "$(dirname "$0")/lib.bash"

run 0 demo
says 'score 11 .*<- the best'
says '^  out   \[1, 4, 3\]$'
[[ $(grep -c 'sums to 1 (row 0: 1\.000000)' "$work/out") == 2 ]] ||
  fail "not two heat maps whose rows sum to 1"
! grep -q $'\033' "$work/out" || fail "colour in a pipe"
