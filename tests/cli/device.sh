#!/usr/bin/env bash
# --device: every verb that computes has it; a GPU that cannot be had is one sentence. The trapping
# device (src/device/trap.c) stands for a GPU: its memory is out of reach of the host.
. "$(dirname "$0")/lib.bash"

# names
for word in cuad cdua cude; do
  run 2 verify --device $word softmax:n4d4
  grep -q "no device \"$word\": did you mean cuda?" "$work/err" || fail "$(cat "$work/err")"
done
for word in rocm metal:1; do
  run 2 generate --device $word --prompt a
  grep -q "no device \"$word\": choose cpu, cuda" "$work/err" || fail "$(cat "$work/err")"
done
for word in cuda: cuda:x cpu:1 cuda:-1; do
  run 2 explain --device $word softmax:n4d4
  grep -q 'write cpu, cuda or cuda:N' "$work/err" || fail "$(cat "$work/err")"
done
run 0 verify --device cpu softmax:n4d4
ATTEND_DEVICE=cuad complains 2 'no device "cuad": choose cpu, cuda' verify softmax:n4d4
ATTEND_DEVICE=nothing run 0 verify --device cpu softmax:n4d4

# no GPU
gpt2=$models/gpt2 bert=$models/bert bart=$models/bart
echo "It was a dark night." >"$work/text"
cases=("verify softmax:n4d4" "verify --all" "verify --invariance" "bench softmax:n4d4"
  "bench machine" "bench crossover elu" "bench model $gpt2" "bench train $gpt2"
  "explain softmax:n4d4" "study scale" "design content" "version")
if [[ $ATTEND_TEXT == ON ]]; then
  cases+=("generate $gpt2 --ids 1" "eval $gpt2 $work/text" "compare $gpt2 --text a"
    "train --data $work/text --out $work/run" "intervene $gpt2 a --ablate 0.0"
    "attribute $gpt2 a" "embed $bert a" "fill $bert a" "summarize $bart $work/text"
    "view --terminal $gpt2 a")
fi
for words in "${cases[@]}"; do
  # shellcheck disable=SC2086
  ATTEND_CUDA_LIBRARY=/no/such/file complains 1 'device cuda needs libattend-cuda: .*/no/such/file' \
    $words --device cuda
done
ATTEND_CUDA_LIBRARY=/no/such/file ATTEND_DEVICE=cuda \
  complains 1 'device cuda needs libattend-cuda' verify softmax:n4d4
echo nothing >"$work/library.so"
ATTEND_CUDA_LIBRARY=$work/library.so complains 1 'needs libattend-cuda' explain --device cuda:3 \
  softmax:n4d4

# beside the program, and in the library folder of its prefix
if [[ -z ${ATTEND_SANITIZE:-} && $(head -c 4 "$ATTEND" | tail -c 3) == ELF ]]; then
  mkdir -p "$work/usr/bin" "$work/usr/lib"
  cp "$ATTEND" "$work/usr/bin/attend"
  cp "$work/library.so" "$work/usr/bin/libattend-cuda.so"
  (ATTEND=$work/usr/bin/attend complains 1 'cuda needs .*usr/bin/libattend-cuda.so' \
    explain --device cuda softmax:n4d4)
fi

# the library, where nvcc built it, without a driver
if [[ -e $(dirname "$ATTEND")/libattend-cuda.so && ! -e /dev/nvidiactl ]]; then
  complains 1 'there is no GPU that CUDA can use: ' verify --device cuda softmax:n4d4
fi

# every verb that computes lists it
for verb in verify bench explain study design compare embed fill summarize eval train generate view \
  intervene attribute; do
  run 0 help $verb
  says '--device=NAME'
done

# a device whose memory the host cannot read
problems=(softmax:b2h4g2n65x90d24v9:bottom:dense:bwd softmax:b2h3n70d8:causal:buckets:f16:bwd
  elu:b2h2n70d9:causal:bthd:bwd argmax:b2h2n40d8:padleft:causal:bf16:decode
  "favor(m=16):b1h2n40d8:causal:decode" softmax:b2h2n30d8:lengths:alibi:bwd)
run 0 verify --device trap "${problems[@]}"
[[ $(grep -c ' host:' "$work/out") == 6 ]] || fail "engines of the host are not named so"
run 0 verify --all --light --device trap --isa scalar
says '([0-9]+) of \1 ok$'
run 0 verify --invariance --light --device trap --isa scalar
says '([0-9]+) of \1 ok$'
ATTEND_DEVICE="trap" run 0 verify "${problems[0]}"
says ' host:softmax-tiled '
ATTEND_DEVICE="trap" run 0 bench --repeat 2 "${problems[@]}" softmax:b1h2n300d16:causal:bwd
says 'host:linear'
ATTEND_DEVICE="trap" run 0 explain "${problems[@]}"
says 'refused +host:'
ATTEND_DEVICE="trap" run 0 study scale --quick --d 4,16 --claims
says '8 of 8 predictions hold'
ATTEND_DEVICE="trap" run 0 study softmax
ATTEND_DEVICE="trap" run 0 design content
run 0 verify --device trap --engine softmax-tiled softmax:n40d8
run 0 verify --device trap --engine host:softmax-tiled softmax:n40d8
complains 1 'no engine is called "cuda-softmax"' verify --device trap --engine cuda-softmax \
  softmax:n40d8
on=(--device trap --threads 2)
for model in gpt2 bart bert t5 llama-gqa; do
  run 0 verify "${on[@]}" --model "$models/$model" --golden "$models/$model/golden.safetensors"
done
run 0 bench model "$gpt2" "${on[@]}" --weights f32 --tokens 8
run 0 bench train "$gpt2" "${on[@]}" --weights f32 --tokens 8
if [[ $ATTEND_TEXT == ON ]]; then
  stories=$models/stories260K
  run 0 generate "$stories" "Once upon a" --tokens 8 "${on[@]}"
  cp "$work/out" "$work/there"
  run 0 generate "$stories" "Once upon a" --tokens 8 --threads 2
  cmp "$work/there" "$work/out" || fail "another text on another device"
  run 0 eval "$stories" "$work/text" "${on[@]}"
  run 0 compare "$stories" --text "It was a dark" "${on[@]}"
  run 0 intervene "$stories" "It was a dark" --ablate 0.0 "${on[@]}"
  run 0 attribute "$stories" "It was a dark" "${on[@]}"
  run 0 train --data "$work/text" --out "$work/run" --tokenizer "$stories" --width 8 --heads 2 \
    --layers 1 --length 8 --batch 1 --steps 2 "${on[@]}"
  if [[ $ATTEND_VIEW == ON ]]; then
    run 0 view --terminal "$stories" "It was a dark" "${on[@]}"
  fi
fi
