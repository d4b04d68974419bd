#!/usr/bin/env bash
# attend verify --model: every family against what transformers computed, and a
# golden file with one logit changed.
. "$(dirname "$0")/lib.bash"

[[ -d $models ]] || fail "$models is missing: set ATTEND_GOLDEN to its folder"

# verified FAMILY QUANTITY...: all rows are ok, and these are among them
verified() {
  local family=$1 quantity
  shift
  run 0 verify --model "$models/$family" \
    --golden "$models/$family/golden.safetensors" --json
  fields quantity way error bound bits ok
  is_json "$(($(wc -l <"$work/out") - 2))"
  ! grep -v '"ok": true' "$work/out" | grep -q quantity ||
    fail "$family has a row that is not ok"
  for quantity in "$@"; do
    grep -q "\"quantity\": \"$quantity\"" "$work/out" ||
      fail "$family was not compared by its $quantity"
  done
  for way in together alone; do says "\"way\": \"$way\""; done
}

for family in gpt2 llama-gqa llama-mqa-tied; do
  verified "$family" logits hidden.0 attention.1 loss greedy beam4
  says '"way": "token by token"'
  says '"way": "without a cache"'
done
for family in bert distilbert roberta; do
  verified "$family" logits hidden.0 attention.1 loss
done
for family in bart t5 t5-gated; do
  verified "$family" logits encoder_hidden.1 decoder_hidden.1 cross_attention.1 \
    loss greedy beam4
  says '"way": "token by token"'
done

# What the nine leave out: scaled rotary positions, biases, wider heads, a
# sliding window, scores by layer, another activation, forced tokens, sides of
# different depth, a head of its own.
for family in llama-rope3 llama-yarn llama-linear llama-biases mistral-window \
  gpt2-by-layer; do
  verified "$family" logits hidden.0 attention.1 loss greedy beam4
done
for family in bart-forced t5-untied; do
  verified "$family" logits encoder_hidden.1 decoder_hidden.1 cross_attention.1 \
    greedy beam4
done

# A table for people says the same.
run 0 verify --model "$models/gpt2" --golden "$models/gpt2/golden.safetensors"
says 'logits +token by token .* ok$'

# offset_of FILE NAME: where the tensor's data begins
offset_of() {
  local length begin
  length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
  begin=$(head -c $((8 + length)) "$1" | tail -c +9 |
    grep -o "\"$2\":{[^}]*\"data_offsets\":\[[0-9]*" | grep -o '[0-9]*$')
  echo $((8 + length + begin))
}

# One logit of the last family becomes 1000.
golden=$work/golden.safetensors
for family in gpt2 bert t5; do
  cp "$models/$family/golden.safetensors" "$golden"
  chmod u+w "$golden"
  printf '\x00\x00\x7a\x44' | dd of="$golden" bs=1 conv=notrunc status=none \
    seek="$(offset_of "$golden" logits)"
  run 1 verify --model "$models/$family" --golden "$golden" --json
  grep -q '"quantity": "logits".*"ok": false' "$work/out" ||
    fail "a logit of $family that was changed is not noticed"
  ! grep '"quantity": "hidden' "$work/out" | grep -q '"ok": false' ||
    fail "hidden states of $family fail with a changed logit"
  grep -q 'rows failed' "$work/err" || fail "no sentence says that rows failed"
done

# Files that do not belong together, or are not there.
complains 1 'no ids' verify --model "$models/gpt2" \
  --golden "$models/gpt2/model.safetensors"
complains 1 'nowhere' verify --model "$work/nowhere" --golden "$golden"
complains 1 'nowhere' verify --model "$models/gpt2" --golden "$work/nowhere"
head -c 1000 "$models/gpt2/golden.safetensors" >"$golden"
complains 1 'golden.safetensors' verify --model "$models/gpt2" \
  --golden "$golden"
