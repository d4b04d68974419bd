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

# A cache that is damaged or cannot be written is no error.
echo '[{"isa": ' >"$XDG_CACHE_HOME/attend/machine.json"
run 0 explain softmax:n64d16
run 0 explain softmax:n64d16
[[ ! -s $work/err ]] || fail "a damaged cache was not replaced"
XDG_CACHE_HOME=/dev/null run 0 explain softmax:n64d16
