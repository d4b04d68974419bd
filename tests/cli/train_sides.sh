#!/usr/bin/env bash
# attend train: encoders and decoders of different sizes, and what the other verbs
# make of them.
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
complains 2 'a gpt2 has one side' train "${new[@]}" --decoder-width 48 --out "$work/new"
