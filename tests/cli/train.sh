#!/usr/bin/env bash
# attend train: every family from nothing and from a model, tasks, options, what is
# kept, what others make of it, mistakes.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
text=$work/text.txt

run 0 train --help
says 'Usage: attend train'
says 'resumes bit-identically'
without_tokenizers train --data "$text" --tokenizer "$stories" --out "$work/x"

# ---- what a run leaves --------------------------------------------------------------
learn gpt2 --data "$text" --tokenizer "$stories" "${tiny[@]}" "${short[@]}"
says '^gpt2 of [0-9.]+ k parameters trains on [0-9.]+ KiB: 1 text, [0-9]+ tokens$'
says '^step 6: validation [0-9.]+ \(perplexity [0-9.]+\)'
says "^6 steps, 192 tokens, [0-9]+ s, [0-9.]+ [KM]iB of memory: $work/gpt2/best, and $work/gpt2/loss.svg$"
for file in run.json log.jsonl loss.svg base/config.json last/config.json \
  last/tok512.bin best/model.safetensors step-00000000/model.safetensors \
  step-00000003/config.json last/training.json last/training.safetensors; do
  [[ -s $work/gpt2/$file ]] || fail "there is no $file"
done
[[ $(readlink "$work/gpt2/last") == step-00000006 ]] || fail "last"
[[ -e $work/gpt2/step-00000003/training.json ]] || fail "the step before the last"
[[ ! -e $work/gpt2/step-00000000/training.json ]] || fail "old moments are kept"
no_leftovers gpt2
python3 - "$work/gpt2" <<'END' || fail "what the run wrote"
import json, sys, xml.etree.ElementTree as tree
run = sys.argv[1]
lines = [json.loads(line) for line in open(run + "/log.jsonl")]
steps = [x for x in lines if "loss" in x]
assert [x["step"] for x in steps] == [2, 4, 6]
assert [x["step"] for x in lines if "valid" in x] == [0, 3, 6]
assert all(x["rate"] > 0 and x["norm"] > 0 for x in steps)
assert steps[-1]["tokens"] == 192 and steps[-1]["loss"] < 6.3
assert tree.parse(run + "/loss.svg").getroot().tag.endswith("svg")
for name in ("run.json", "last/training.json", "last/config.json"):
    json.load(open(run + "/" + name))
END

# ---- families ------------------------------------------------------------------------
learn llama --data "$text" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}" \
  --family llama --kv-heads 1
grep -q '"num_key_value_heads": 1' "$work/llama/last/config.json" || fail "kv heads"
run 0 show "$work/llama/last"
says '2 heads of 8, 1 kv head'
with_words bert
for _ in {1..40}; do echo "the cat sat on a mat . a dog sat"; done >"$work/words.txt"
learn masked --data "$work/words.txt" --tokenizer "$work/bert" "${tiny[@]}" \
  "${brief[@]}" --family bert --json
is_json 1
fields steps tokens loss valid perplexity best_step seconds ended_early \
  interrupted folder
run 0 fill "$work/masked/last" "the [MASK] sat"
learn bart --data "$work/pairs.tsv" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}" \
  --family bart --decoder-layers 2
says '[0-9]+ pairs, '
learn t5 --data "$work/pairs.jsonl" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}" \
  --family t5 --untied
learn joined --data "$work/pairs.tsv" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}"
for name in gpt2 llama bart t5 joined; do
  run 0 generate "$work/$name/last" --prompt "Tom saw" --tokens 3
done
learn learnt --data "$text" "${tiny[@]}" "${brief[@]}" --vocab 300
run 0 generate "$work/learnt/best" --prompt "Tom saw" --tokens 3

# ---- from a model, and forms of attention ------------------------------------------------
learn further "$stories" --data "$text" --length 16 "${brief[@]}" --attention elu \
  --valid-share 0
grep -q '"attend_attention": "elu"' "$work/further/last/config.json" ||
  fail "a model that learnt with elu does not say so"
says '^step 2: training loss'
says "$work/further/last, and"
[[ ! -e $work/further/best ]] || fail "best of nothing"
learn favor --data "$text" --tokenizer "$stories" "${tiny[@]}" "${brief[@]}" \
  --attention 'favor(m=16)'
loss_of() {
  run 0 eval "$@" --json
  field loss
}
for name in further favor; do
  form=$(sed -n 's/.*attend_attention": "\(.*\)".*/\1/p' "$work/$name/last/config.json")
  [[ $(loss_of "$work/$name/last" "$text") == $(loss_of "$work/$name/last" "$text" \
    --attention "$form") ]] || fail "$name: $form is not what runs"
  [[ $(loss_of "$work/$name/last" "$text") != $(loss_of "$work/$name/last" "$text" \
    --attention softmax) ]] || fail "$name: --attention is not obeyed"
  run 0 generate "$work/$name/last" --prompt Tom --tokens 3
done
learn words "$work/bert" --data "$work/words.txt" --length 16 "${brief[@]}"
learn borrowed "$work/bert" --tokenizer "$work/bert/vocab.txt" \
  --data "$work/words.txt" --length 16 "${brief[@]}"

# ---- how it is learnt --------------------------------------------------------------------
learn sgd --data "$text" --tokenizer "$stories" "${tiny[@]}" "${short[@]}" \
  --optimizer sgd --momentum 0.5 --schedule linear --weights bf16 --recompute
learn narrow --data "$text" --tokenizer "$stories" "${tiny[@]}" "${short[@]}" --precision bf16
! grep -q moments.1 "$work/sgd/last/training.safetensors" || fail "sgd has two moments"
learn twice --data "$text" --tokenizer "$stories" "${tiny[@]}" "${short[@]}" \
  --accumulate 3 --dropout 0.1 --smoothing 0.1 --save-as bf16 --json
[[ $(field tokens) == $((6 * 3 * 2 * 16)) ]] || fail "--accumulate"
run 0 show "$work/twice/last" --json
says '[Bb][Ff]16'
learn once --data "$text" --tokenizer "$stories" "${tiny[@]}" --epochs 1 --json
tokens=$("$ATTEND" train --resume --out "$work/once" | sed -n 's/.*, \([0-9]*\) tokens;.*/\1/p')
[[ $(field steps) == $(((tokens / 16 + 1) / 2)) ]] || fail "--epochs"

# ---- what is kept ------------------------------------------------------------------------
learn kept --data "$text" --tokenizer "$stories" "${tiny[@]}" --steps 8 \
  --save-every 1 --keep 2 --rate 0 --json
[[ $(cd "$work/kept" && echo step-*) == \
  "step-00000000 step-00000006 step-00000007 step-00000008" ]] ||
  fail "--keep 2 keeps $(cd "$work/kept" && echo step-*)"
learn patient --data "$text" --tokenizer "$stories" "${tiny[@]}" --steps 50 \
  --save-every 2 --patience 3 --rate 0 --json
[[ $(field steps) == 6 && $(field ended_early) == true ]] || fail "--patience"
[[ $(field best_step) == 0 && $(readlink "$work/patient/best") == step-00000000 &&
  $(readlink "$work/patient/last") == step-00000006 ]] || fail "best and last"
learn patient --resume --patience 5
says '^ended early: step 0 was the best, and 5 measurements'
learn patient --resume
says '^10 steps'

# ---- validation is what eval computes ------------------------------------------------------
# Windows are the same where they fill the text: its tokens and an end.
for ((n = 400; n < 500; n++)); do
  head -c $n "$text" >"$work/held.txt"
  "$ATTEND" tokenize "$stories" --json <"$work/held.txt" |
    sed -n 's/.*"id": \([0-9]*\).*/\1/p' >"$work/ids"
  if (($(wc -l <"$work/ids") % 16 == 0)); then break; fi
done
echo 2 >>"$work/ids"
learn held --data "$text" --valid "$work/held.txt" --tokenizer "$stories" \
  "${tiny[@]}" "${short[@]}" --json
valid=$(field valid)
[[ $(loss_of "$work/held/best" --ids "$work/ids" --context 16 --stride 16) == "$valid" ]] ||
  fail "eval gives $(field loss), validation $valid"

# ---- mistakes ------------------------------------------------------------------------------
new=(train --data "$text" --tokenizer "$stories" "${tiny[@]}" --out "$work/new")
complains 2 '--out DIR' train --data "$text"
complains 2 '--data FILE' train --out "$work/new"
complains 2 '--data' train "$text" --out "$work/new"
complains 2 'holds no training to go on with' train --resume --out "$work/new"
complains 2 'holds a training run already' "${new[@]}" --out "$work/gpt2"
complains 2 'has its own family and sizes' "${new[@]}" "$stories"
complains 2 '17 cannot be cut into 2 heads' "${new[@]}" --width 17
complains 2 'is not a form' "${new[@]}" --attention fovar
complains 2 'cannot learn the task masked' "${new[@]}" --task masked
complains 2 'mask token' "${new[@]}" --family bert
complains 2 '.jsonl or .tsv' "${new[@]}" --family t5
complains 2 'choose a smaller --length' "${new[@]}" --positions 8
complains 2 'choose a smaller --length' train "$stories" --data "$text" --length 513 \
  --out "$work/new"
complains 1 'line 1: there is no string called "body"' "${new[@]}" \
  --data "$work/pairs.jsonl" --field body
complains 1 'nothing.txt cannot be opened' "${new[@]}" --data "$work/nothing.txt"
complains 1 'they do not belong together' train "$work/bert" --tokenizer "$stories" \
  --data "$text" --out "$work/new"
complains 1 'has no tokenizer.*name a tokenizer' train "$models/gpt2" --data "$text" \
  --out "$work/new"
complains 1 'cannot be made' "${new[@]}" --out "$text/below"
for pair in --family=gpt9 --steps=-1 --rate=fast --schedule=round --task=all \
  --optimizer=adam --save-as=int8 --dropout=1 --valid-share=1; do
  run 2 "${new[@]}" "$pair"
  grep -q -- "${pair%=*} takes" "$work/err" || fail "$pair: $(cat "$work/err")"
done
mkdir -p "$work/theirs/base"
complains 2 'base is in the way' "${new[@]}" --out "$work/theirs"

# A run that failed before its first step does not block another.
run 0 "${new[@]}" --family llama --steps 1
grep -q '"model_type": "llama"' "$work/new/last/config.json" || fail "an old base"
run 1 "${new[@]}" --out "$work/diverged" --rate 1000 --clip 0 --optimizer sgd --steps 20
grep -Eq 'smaller (--)?rate' "$work/err" || fail "$(cat "$work/err")"
run 0 eval "$work/diverged/last" "$text"
