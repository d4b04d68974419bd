#!/usr/bin/env bash
# attend train: encoders and decoders of different sizes, heads that copy, and what
# the other verbs make of them.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
[[ $ATTEND_TEXT == ON ]] || exit 0
new=(--data "$work/pairs.tsv" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}")

learn sides "${new[@]}" --family bart --layers 2 --decoder-layers 1 --decoder-width 48 \
  --decoder-heads 3 --decoder-mlp 40
model=$work/sides/last
python3 - "$model/config.json" <<'END' || fail "config.json"
import json, sys
c = json.load(open(sys.argv[1]))
assert c["d_model"] == 48 and c["attend_encoder_width"] == 16
assert c["encoder_attention_heads"] == 2 and c["decoder_attention_heads"] == 3
assert c["encoder_ffn_dim"] == 64 and c["decoder_ffn_dim"] == 40
END
run 0 show "$model" --tensors
says '2 layers of width 16, 2 heads of 8'
says '1 layer of width 48, 3 heads of 16'
says 'encoder.embed_projection.weight +\[16, 48\].*embedding projection'
run 0 generate "$model" --prompt "Tom saw" --tokens 4
run 0 generate "$model" --prompt "Tom saw" --tokens 4 --beams 3
run 0 embed "$model" "Tom saw" "Anna took"
if [[ $ATTEND_VIEW == ON ]]; then
  run 0 view --model "$model" "Tom saw" "a big" --json --view model
  says '"cross"'
fi
learn sides --resume --steps 3

complains 2 'cannot be cut into 2 heads: choose the number of its heads' \
  train "${new[@]}" --family t5 --decoder-width 49 --out "$work/new"
complains 2 'a copy head of width 8 in a gpt2' train "${new[@]}" --copy 8 --out "$work/new"
complains 2 'a gpt2 has one side' train "${new[@]}" --decoder-width 48 --out "$work/new"

# ---- forms by role -----------------------------------------------------------------
learn roles "${new[@]}" --family bart --decoder-width 32 --attention 'favor(m=16)' \
  --attention-roles encoder,cross --copy 8
model=$work/roles/last
grep -q '"attend_attention_roles": "encoder,cross"' "$model/config.json" || fail "roles"
run 0 show "$model" --tensors
says 'attention +favor\(m=16\) in encoder,cross$'
says 'copy.k_proj.weight +\[8, 16\].*copy key'
written() {
  run 0 generate "$model" --prompt "Tom saw a big dog" --tokens 3 --json "$@"
  field log_probability
}
[[ $(written) == $(written --attention 'favor(m=16)' --attention-roles encoder,cross) ]] ||
  fail "what runs is not what was learnt with"
[[ $(written) != $(written --attention softmax --attention-roles cross) ]] ||
  fail "--attention-roles is not obeyed"
learn further "$model" --data "$work/pairs.tsv" --length 16 "${brief[@]}" \
  --attention elu --attention-roles 'decoder, encoder, cross'
grep -q '"attend_attention": "elu"' "$work/further/last/config.json" || fail "elu"
[[ $(grep -c attend_attention_roles "$work/further/last/config.json") == 1 ]] ||
  fail "roles of before"
grep -q '"attend_copy_width": 8' "$work/further/last/config.json" || fail "copy"
run 0 compare "$model" --text "Tom saw" --form softmax --form elu \
  --attention-roles decoder
if [[ $ATTEND_VIEW == ON ]]; then
  run 0 view --model "$model" "Tom saw" "a big" --json --view head --role cross
  says '"attention": *"favor\(m=16\)@encoder,cross"'
  run 0 view --model "$model" "Tom saw" "a big" --json --role decoder \
    --against attention=elu@decoder
fi
complains 2 'one form beside softmax' train "$model" --data "$work/pairs.tsv" \
  --attention elu --attention-roles decoder --out "$work/new"
complains 2 'add --attention FORM' train "${new[@]}" --attention-roles cross \
  --out "$work/new"
complains 2 'encoder, decoder and cross, not "crass"' generate "$model" --prompt a \
  --attention elu --attention-roles crass
complains 2 'has no attention of the role cross' generate "$stories" --prompt a \
  --attention elu --attention-roles cross
