#!/usr/bin/env bash
# attend verify: rows, sweeps, invariance, goldens.
. "$(dirname "$0")/lib.bash"

problems=(softmax:b2h4g2n65d24:causal:bwd softmax:b1h2n100d16:decode:bf16
  "argmax(ties=average):b1h2n17x33d3:bwd" gaussian:b1h1n20d8)
run 0 verify "${problems[@]}"
[[ $(grep -c ' ok$' "$work/out") == 5 ]] || fail "not four rows ok" # and a title
run 0 verify --json "${problems[@]}"
is_json 4
fields problem engine isa threads max_error bound ok o lse dq dk dv dbias
[[ $(grep -c '"ok": true' "$work/out") == 4 ]] || fail "a row is not ok"
says '"problem": "softmax:b2h4g2n65d24:causal:bwd"'

run 0 verify --engine linear "poly:n20d4:bwd" "favor(m=16):n70d8:causal:bwd"
[[ $(grep -c ' linear .* ok$' "$work/out") == 2 ]] || fail "not by linear"
run 0 verify --engine definition softmax:n20d4
says ' definition .* ok$'
complains 1 'engine linear does not apply' verify --engine linear softmax:n4d4

light=()
if [[ -n ${ATTEND_TEST_LIGHT:-} ]]; then light=(--light); fi
run 0 verify --all "${light[@]}"
says '^[0-9]+ of [0-9]+ ok$'
run 0 verify --all --light --isa scalar --json
fields problem isa max_error bound ok
! grep -q '"ok": false' "$work/out" || fail "--all has a row that is not ok"

run 0 verify --invariance "${light[@]}"
for check in '7 threads' BTHD observed 'batch entry alone' 'query alone' \
  'state: one by one'; do
  says "$check"
done

golden=${ATTEND_GOLDEN:-tests/golden}/attention.safetensors
[[ -f $golden ]] || fail "$golden is missing: set ATTEND_GOLDEN to its folder"
run 0 verify --golden "$golden" --isa all --json
fields problem engine max_error bound ok o lse dq dk dv
says '"problem": "huge-logits"'
says '"problem": "bottom-dead-rows"'
! grep -q '"ok": false' "$work/out" || fail "a golden case is not ok"
