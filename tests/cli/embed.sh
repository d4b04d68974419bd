#!/usr/bin/env bash
# attend embed: cosines, vectors line for line, files, nearest texts.
. "$(dirname "$0")/lib.bash"

for family in bert gpt2 t5; do with_words $family; done

without_tokenizers embed "$work/bert" x

run 0 embed --help
says 'Usage: attend embed'

# Every kind of model; the cosine of a text with itself is 1.
for family in bert gpt2 t5; do
  run 0 embed "$work/$family" "the cat" "a dog sat" "the cat"
  [[ $(wc -l <"$work/out") == 4 ]] || fail "$family: not a table of three"
  says '^   1  1\.000 +-?[01]\.[0-9]{3}  1\.000  the cat$'
  says '^   2 .* a dog sat$'
done

# A word in two texts: a row for each layer, and one after the last.
for family in bert gpt2; do
  run 0 embed "$work/$family" --word cat "the cat sat" "a dog saw the cat"
  says '^layer  hidden  query +key  value$'
  says '^ +3 +-?[01]\.[0-9]{3} +- +- +-$'
  run 0 embed "$work/$family" --word cat "the cat sat" "the cat sat" --json
  python3 - "$work/out" <<'END' || fail "$family: a word beside itself"
import json, sys
rows = json.load(open(sys.argv[1]))
assert [r["layer"] for r in rows] == list(range(len(rows)))
assert all(abs(r[k] - 1) < 1e-6 for r in rows for k in ("hidden", "key") if r[k] is not None)
END
done
complains 1 'has no word "dog"' embed "$work/bert" --word dog "a dog" "a cat"
run 2 embed "$work/bert" --word dog "a dog"

# Lines in the order of the input, each with the bits of the line alone.
for i in {1..70}; do
  printf 'a dog'
  for ((j = 0; j < i * 13 % 17; j++)); do printf ' w%d' $((i + j)); done
  printf '\n'
done >"$work/lines"
printf '\nthe cats\r\n' >>"$work/lines"
for threads in 1 2; do
  "$ATTEND" embed -t $threads "$work/bert" <"$work/lines" >"$work/all.$threads"
done
cmp "$work/all.1" "$work/all.2" || fail "bits depend on the threads"
[[ $(wc -l <"$work/all.1") == 72 ]] || fail "not one line for each line"
for i in 1 17 40 70; do
  run 0 embed "$work/bert" "$(sed -n ${i}p "$work/lines")"
  cmp "$work/out" <(sed -n ${i}p "$work/all.1") || fail "line $i: other bits"
done
run 0 embed "$work/bert" "the cats"
cmp "$work/out" <(tail -n 1 "$work/all.1") || fail "a line end counts"
awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i * $i
       if (NF != 48 || s < 0.999999 || s > 1.000001) exit 1 }' \
  "$work/all.1" || fail "vectors are not of length 1"
run 0 embed "$work/bert" --no-normalize --vectors "the cat" "a dog"
awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i * $i
       if (s > 0.999 && s < 1.001) exit 1 }' "$work/out" || fail "--no-normalize"

# Pooling: by --pool, as the folder says, or the default of the kind of model.
run 0 embed "$work/bert" --pool cls "the cat sat"
cp "$work/out" "$work/cls"
run 0 embed "$work/bert" "the cat sat"
cp "$work/out" "$work/mean"
! cmp -s "$work/cls" "$work/mean" || fail "cls is mean"
mkdir "$work/bert/1_Pooling"
printf '{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}' \
  >"$work/bert/1_Pooling/config.json"
run 0 embed "$work/bert" "the cat sat"
cmp "$work/out" "$work/cls" || fail "1_Pooling is ignored"
run 0 embed "$work/bert" --pool mean "the cat sat"
cmp "$work/out" "$work/mean" || fail "--pool does not override the folder"
printf '[{"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
  {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]' \
  >"$work/bert/modules.json"
complains 1 'step sentence_transformers.models.Dense' embed "$work/bert" "a cat"
rm -r "$work/bert/modules.json" "$work/bert/1_Pooling"
run 0 embed "$work/gpt2" "the cat sat"
cp "$work/out" "$work/last"
run 0 embed "$work/gpt2" --pool last "the cat sat"
cmp "$work/out" "$work/last" || fail "decoders do not pool the last token"

# Truncated texts are counted.
run 0 embed "$work/bert" --max-length 4 --vectors "the cat sat on" "a dog"
grep -q '1 of 2 texts was truncated to 4 tokens' "$work/err" || fail "no warning"
printf '{"max_seq_length": 4}' >"$work/bert/sentence_bert_config.json"
run 0 embed "$work/bert" "the cat sat on"
grep -q '1 of 1 texts was truncated to 4 tokens' "$work/err" || fail "the folder's"
rm "$work/bert/sentence_bert_config.json"

# Settings of the wrong type are refused by name.
refuse_settings() { # refuse_settings FILE TEXT WORDS
  mkdir -p "$work/bert/1_Pooling"
  printf '%s' "$2" >"$work/bert/$1"
  complains 1 "$3" embed "$work/bert" "a cat"
  rm -rf "$work/bert/$1" "$work/bert/1_Pooling"
}
refuse_settings sentence_bert_config.json '{"max_seq_length": "4"}' \
  'max_seq_length is "4": expected a whole number'
refuse_settings sentence_bert_config.json '{"max_seq_length": -4}' \
  'max_seq_length is -4'
refuse_settings modules.json '{}' 'expected an array'
refuse_settings modules.json '[{"type": 5, "path": ""}]' 'type is 5'
refuse_settings 1_Pooling/config.json '{"pooling_mode_cls_token": 1}' \
  'pooling_mode_cls_token is 1: expected true or false'
refuse_settings 1_Pooling/config.json '{"pooling_mode": true}' \
  'pooling_mode is true: expected a string'
refuse_settings 1_Pooling/config.json '[]' 'expected an object'
complains 2 'more than the 40 positions' embed "$work/bert" --max-length 65 x

# JSON: a row for each text.
run 0 embed "$work/bert" --json "the \"cat\"" "a dog"
says '^  \{"text": "the \\"cat\\"", "tokens": [0-9]+, "vector": \[-?[0-9.e-]+(, -?[0-9.e-]+){47}\], "cosines": \[1, -?0\.[0-9]+\]\},$'
"$ATTEND" embed "$work/bert" --json <"$work/lines" >"$work/out"
[[ $(grep -c '"vector": ' "$work/out") == 72 ]] || fail "rows of JSON"
! grep -q cosines "$work/out" || fail "lines have cosines"

# A file, complete or not replaced.
"$ATTEND" embed "$work/bert" --out "$work/v.safetensors" <"$work/lines" \
  >"$work/out"
says '^72 texts of [0-9]+ tokens: \[72, 48\] in '
grep -aq '"embeddings": {"dtype": "F32", "shape": \[72, 48\]' \
  "$work/v.safetensors" || fail "the file's header"
[[ $(stat -c %s "$work/v.safetensors") == $((1024 + 4 * 72 * 48)) ]] ||
  fail "the file's size"
cp "$work/v.safetensors" "$work/before"
# The thread sanitizer's own files have half a megabyte, so these have more.
seq 4000 | sed 's,.*,a,' >"$work/many"
if (
  trap '' XFSZ
  ulimit -f 600
  "$ATTEND" embed "$work/bert" --out "$work/v.safetensors" <"$work/many" \
    >"$work/out" 2>"$work/err"
); then fail "a full disk is not noticed"; fi
grep -q 'v.safetensors cannot be written: ' "$work/err" || fail "no error"
cmp "$work/before" "$work/v.safetensors" || fail "the old file is lost"
[[ $(find "$work" -name '*.part' | wc -l) == 0 ]] || fail "something is left"
complains 1 'cannot be written' embed "$work/bert" --out "$work/no/v" x
complains 1 'not a plain file' embed "$work/bert" --out /dev/null x

# Nearest texts.
"$ATTEND" embed "$work/bert" --search "the cats" --top 2 --json \
  <"$work/lines" >"$work/out"
is_json 2
fields rank cosine line text
says '"rank": 1, "cosine": (1|0\.9999[0-9]*), "line": 72, "text": "the cats"'
run 0 embed "$work/bert" --search "a dog" "the cat" "a dog" "w1 w2"
says '^   1   1\.000     2  a dog$'

complains 1 'there is no folder /no/such/model' embed /no/such/model x
complains 1 'no model .* embeds texts: run attend pull hf:' embed a b
run 2 embed "$work/bert" --pool most x
run 2 embed "$work/bert" --top 3 x
run 2 embed "$work/bert" --search x --vectors y

# Non-finite weights.
mkdir "$work/none"
cp "$work/bert/"* "$work/none"
without_numbers "$work/none"
complains 1 'not finite' embed "$work/none" "the cat" "a dog"
complains 1 'not finite' embed "$work/none" --search "a dog" "the cat"

# A model whose file is shortened while it is in use.
cp -r "$work/bert" "$work/cut"
mkfifo "$work/pipe"
"$ATTEND" embed "$work/cut" <"$work/pipe" >"$work/out" 2>"$work/err" &
child=$!
exec 9>"$work/pipe"
seq 4096 | sed 's/.*/the cat/' >&9
for _ in {1..1500}; do
  [[ ! -s $work/out ]] || break
  sleep 0.02
done
truncate -s 8 "$work/cut/model.safetensors"
seq 4096 | sed 's/.*/a dog sat/' >&9
exec 9>&-
code=0
wait $child || code=$?
((code == 1)) || fail "a model that was cut: exits with $code"
grep -q '^attend: a model.s file was shortened' "$work/err" || fail "not reported: $(cat "$work/err")"
