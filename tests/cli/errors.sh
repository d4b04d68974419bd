#!/usr/bin/env bash
# Failures are reported in one sentence, with the right exit code.
. "$(dirname "$0")/lib.bash"

# the user's mistakes: 2
for verb in explain verify bench; do
  complains 2 'softmux' $verb softmux:n4d4
  complains 2 'no shape' $verb softmax
  complains 2 'key length 5 .* top or bottom' $verb softmax:n4x5d4:causal
  complains 2 'not an instruction set' $verb --isa sse9 softmax:n4d4
done
complains 2 'not an instruction set' version --isa sse9
complains 2 'only bench takes it' verify sgemm:m4n4k4
complains 2 'not lengths' verify softmax:n4d4:lengths:decode
complains 2 'not lengths' bench softmax:n4d4:lengths:decode
ATTEND_NUM_THREADS=many complains 2 'ATTEND_NUM_THREADS' version
ATTEND_ISA=sse9 complains 2 'ATTEND_ISA' version

# failures: 1
complains 1 'no/such/file.* No such file' verify --golden no/such/file
echo nonsense >"$work/bad"
complains 1 "$work/bad" verify --golden "$work/bad"
printf '\002\0\0\0\0\0\0\0{}' >"$work/empty"
complains 1 'no cases' verify --golden "$work/empty"
complains 1 'no/such/folder' bench --table --repeat 1 --out no/such/folder/x.csv

# a full disk
if [[ -w /dev/full ]]; then
  for command in "version" "version --json" "verify softmax:n4d4" \
    "verify --json softmax:n4d4" "explain --json softmax:n4d4" "demo" \
    "explain softmax:n4d4" "bench --repeat 1 softmax:n4d4"; do
    got=0
    # shellcheck disable=SC2086
    "$ATTEND" $command >/dev/full 2>"$work/err" || got=$?
    ((got == 1)) || fail "attend $command on a full disk exits with $got"
    grep -v 'measuring' "$work/err" | grep -q 'could not write' ||
      fail "attend $command on a full disk: $(cat "$work/err")"
  done
fi

# files that are taken for a model
printf 'GGUF\3\0\0\0\0' >"$work/model.gguf"
printf 'PK\3\4more' >"$work/model.bin"
for verb in show "generate --prompt a" "compare --text a"; do
  # shellcheck disable=SC2086
  complains 1 'is a GGUF file .* folder with config.json' $verb "$work/model.gguf"
  # shellcheck disable=SC2086
  complains 1 'is a PyTorch checkpoint' $verb "$work/model.bin"
  [[ $verb != show ]] || continue # it lists the tensors of such a file
  # shellcheck disable=SC2086
  complains 1 'weights .safetensors.: give the folder' $verb \
    "$ATTEND_GOLDEN/models/gpt2/model.safetensors"
done
mkdir "$work/unknown"
echo '{"model_type": "xlnet"}' >"$work/unknown/config.json"
complains 1 'llama, mistral, bert' show "$work/unknown"
