#!/usr/bin/env bash
# attend bench: rows and ratios; nothing here depends on the speed.
. "$(dirname "$0")/lib.bash"

run 0 bench --repeat 3 softmax:h2n64d16
says 'problem +engine +isa +threads +median +best +GFLOP/s +GB/s +workspace$'
run 0 bench --repeat 3 --json softmax:h2n64d16 softmax:h2n64d16:causal:bwd \
  softmax:h4g1n300d16:decode
is_json 3
fields problem engine isa threads median_s best_s gflops gbytes_per_s \
  workspace_bytes ratio
[[ $(sed -n 2p "$work/out") == *'"ratio": 1, '* ]] || fail "the first ratio"

run 0 bench machine --json
is_json 1
fields isa threads flops_one flops_all read_one read_all
[[ -s $XDG_CACHE_HOME/attend/machine.json ]] || fail "the ceilings are not kept"

run 0 bench --repeat 1 --threads 1 --engine linear "poly(c=1):h2n64d8"
says ' linear +'
grep -q 'linear is predicted to take' "$work/err" || fail "no warning"
run 0 bench --repeat 1 --engine kernel-direct "poly(c=1):h2n64d8"
says ' kernel-direct +'
[[ ! -s $work/err ]] || fail "a needless line: $(cat "$work/err")"
complains 1 'engine linear does not apply' bench --engine linear softmax:n8d8

# Where exact and linear cross: no length and no time is asserted.
run 0 bench crossover "elu:h2" --dim 16 --seconds 1 --threads 1
says '^elu:b1h2g2d16v16$'
says '^operation +isa +threads +predicted n +measured n +times at n +exact'
for operation in forward 'forward\+backward' decode; do
  says "^$operation +[a-z0-9]+ +1 +[0-9]+ "
done
run 0 bench crossover "favor(m=16):d8:bf16" --seconds 1 --threads 1 --json
is_json 3
fields form operation isa threads predicted_n measured_n n exact_engine exact_s \
  linear_s
says '"form": "favor\(m=16\):b1h1g1d8v8"'
complains 2 'no feature map' bench crossover softmax
complains 2 'leave out x, bwd and decode' bench crossover elu:h2:decode
complains 2 'no window' bench crossover elu:h2:window=9
complains 2 'elo' bench crossover elo

got=0
"$ATTEND" bench --repeat 1 sgemm:m32n32k32 >"$work/out" 2>"$work/err" || got=$?
if ((got == 0)); then
  says 'openblas-'
  narrow=(bench --isa avx2 --repeat 1 sgemm:m32n32k32 softmax:n8d8)
  if grep -Eq 'openblas-(SkylakeX|Cooperlake|SapphireRapids)' "$work/out"; then
    run 0 "${narrow[@]}"
    grep -q 'OPENBLAS_CORETYPE=Haswell' "$work/err" || fail "unlike is compared"
    [[ $(wc -l <"$work/err") == 1 ]] || fail "more than one line on stderr"
    run 0 "${narrow[@]}" --json
    [[ ! -s $work/err ]] || fail "--json writes to stderr"
    OPENBLAS_CORETYPE=Haswell run 0 "${narrow[@]}"
    [[ ! -s $work/err ]] || fail "a needless line: $(cat "$work/err")"
  fi
  mkdir "$work/broken" # a library that cannot be opened is as one that is missing
  : >"$work/broken/libopenblas.so.0"
  LD_LIBRARY_PATH=$work/broken complains 1 'libopenblas.so.0 cannot be opened.*install' \
    bench --repeat 1 sgemm:m32n32k32
else
  ((got == 1)) || fail "sgemm without a BLAS exits with $got"
  grep -q 'built without' "$work/err" || fail "sgemm: $(cat "$work/err")"
fi
complains 1 'has no config.json' bench model "$work"

# By length: a form's cache and a plot, of a model that has 64 positions.
run 0 bench summarize "$models/bart" --lengths 64..512 --forms 'softmax,favor(m=8,seed=3)' \
  --curve "$work/lengths.svg" --json
is_json 8
fields tokens attention read_s read_limit_s tokens_per_s token_s token_limit_s \
  work_bytes cache_bytes peak_bytes
[[ $(grep -c '"attention": "favor(m=8,seed=3)"' "$work/out") == 4 ]] || fail "rows"
caches() { grep "\"$1" "$work/out" | sed 's/.*"cache_bytes": \([0-9]*\).*/\1/'; }
[[ $(caches favor | sort -u | wc -l) == 1 ]] || fail "favor's sums grow"
mapfile -t grows < <(caches softmax)
((grows[3] > grows[2] && grows[2] > grows[0])) || fail "softmax has ${grows[*]}"
[[ $(grep -c '>Reading a document<\|>Writing a token\|>Memory, ' "$work/lengths.svg") -ge 3 ]] ||
  fail "the plot of lengths"
run 0 bench summarize "$models/t5" --lengths 8 --forms softmax,elu --attention-roles cross
says '^ +8 +elu '
run 0 bench train "$models/bart" --lengths 32..128 --forms softmax,elu \
  --curve "$work/steps.svg" --json
is_json 6
says '"what": "elu 1 x 128"'
fields weights what seconds tokens_per_s gflops of_sgemm held_bytes work_bytes \
  peak_bytes
grep -q 'Its memory' "$work/steps.svg" || fail "the plot of steps"
complains 2 'no encoder and decoder' bench summarize "$models/gpt2"
complains 2 'up to 6 forms' bench summarize "$models/t5" --forms elu,elu,elu,elu,elu,elu,elu
run 2 bench summarize "$models/t5" --lengths 9..8
grep -q 'as 256..65536' "$work/err" || fail "lengths: $(cat "$work/err")"
run 2 bench model "$models/t5" --lengths 8
grep -q 'go with summarize' "$work/err" || fail "lengths: $(cat "$work/err")"
