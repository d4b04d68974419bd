#!/usr/bin/env bash
# attend explain: engine, refusals, costs, and the ceilings it keeps.
. "$(dirname "$0")/lib.bash"

run 0 explain softmax:b1h12n256d64:causal
for word in engine refused FLOPs bytes workspace intensity bound; do
  says "^  $word "
done
says 'FLOPs +101 M' # 12 * 256 * 257 / 2 * 2 * 128
grep -q 'measuring what this machine' "$work/err" || fail "measured silently"
[[ -s $XDG_CACHE_HOME/attend/machine.json ]] || fail "the ceilings are not kept"

run 0 explain softmax:b1h12n256d64:causal
[[ ! -s $work/err ]] || fail "measured twice"
run 0 explain softmax:b1h12n256d64:causal --threads 1
grep -q 'on 1 thread, once' "$work/err" || fail "threads share their ceilings"
[[ $(grep -c '"isa"' "$XDG_CACHE_HOME/attend/machine.json") == 2 ]] ||
  fail "the cache does not hold both"

run 0 explain --json softmax:n64d16 sgemm:m8n8k8
is_json 2
fields problem engine isa threads refused flops bytes intensity \
  workspace_bytes bound predicted_s
says '"flops": 1024, "bytes": 768'

run 0 explain softmax:b1h8g2n4096d64:decode
says 'kv heads .*FLOPs .*cache'
says '^ +8 .* 16\.0 MiB'
says '^ +2 .* 4\.00 MiB'
says '^ +1 .* 2\.00 MiB'
run 0 explain --json softmax:b1h8g2n4096d64:decode
is_json 3
fields kv_heads cache_bytes

# A form with a feature map: both methods, where they cross, and the error.
run 0 explain "favor(m=256):b1h12n4096d64:causal"
says '^method +engine +FLOPs +at least +bound +memory +grows as$'
says '^exact +softmax-tiled .* O\(T S \(D \+ M\)\)$'
says '^linear +linear .* O\(T C \(D \+ M\)\)$'
says '^  crossover +linear is predicted to be faster from n = [0-9]+ on$'
says '^  error +0\.5 or more expected for normal q and k of rms 1; 0\.1 would'
[[ ! -s $work/err ]] || fail "warned above the crossover: $(cat "$work/err")"
run 0 explain "favor(m=256):b1h12n64d64:causal"
[[ $(wc -l <"$work/err") == 1 ]] || fail "not one warning: $(cat "$work/err")"
grep -Eq 'linear is predicted to take .* softmax-tiled .* from n = [0-9]+ on' \
  "$work/err" || fail "the warning: $(cat "$work/err")"
run 0 explain "favor(error=0.1,spread=0.35):b1h12n4096d64:causal"
says '^favor\(m=[0-9]+\):'
says '^  error +0\.[01][0-9]* expected for normal q and k of rms 0\.35; '
run 0 explain "poly:n64d16" --engine linear
says '^  engine +linear '
says '^exact +kernel-direct .* O\(T S'
says '^linear +linear .* O\(T C M\)$'
grep -q 'linear is predicted to take' "$work/err" || fail "poly: no warning"
run 0 explain "favor:n64d16:causal:window=8"
says '^linear +refused +- '
says '^  crossover +never predicted'
run 0 explain "favor:b1h4g1n4096d64:decode"
says '^linear +linear .* O\(C \(D \+ M\)\)$'

run 0 explain --json "favor:n4096d16:causal" "poly:n4096d8" softmax:n64d16 \
  sgemm:m8n8k8 "favor:n99d8:decode"
is_json 5
fields exact_engine exact_flops exact_s exact_memory_bytes exact_growth \
  linear_flops linear_s linear_memory_bytes linear_growth crossover_n \
  expected_error spread features_for_tenth
[[ $(grep -c '"crossover_n": [0-9]' "$work/out") == 3 ]] || fail "crossovers"
[[ $(grep -c '"expected_error": [0-9]' "$work/out") == 2 ]] || fail "errors"
[[ $(grep -c '"exact_engine": null' "$work/out") == 2 ]] || fail "no exact method"
says '"exact_flops": 537001984, ' # 4096 * 4097 / 2 * 2 * 32

complains 1 'engine softmax-tiled does not apply' explain --engine softmax-tiled \
  elu:n64d16
complains 1 'no engine is called "nosuch"' explain --engine nosuch elu:n64d16
complains 2 'an error of 0.05 would take about .* or use softmax' \
  explain "favor(error=0.05):n64d64"

# A cache that is damaged or cannot be written is no error.
echo '[{"isa": ' >"$XDG_CACHE_HOME/attend/machine.json"
run 0 explain softmax:n64d16
run 0 explain softmax:n64d16
[[ ! -s $work/err ]] || fail "a damaged cache was not replaced"
XDG_CACHE_HOME=/dev/null run 0 explain softmax:n64d16
