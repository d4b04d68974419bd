#!/usr/bin/env bash
# attend summarize: any encoder-decoder; beams, draws that differ, words, sources.
. "$(dirname "$0")/lib.bash"

# with_numbers FAMILY: $work/FAMILY, that model with words w3 .. w210 and nothing
# around a text, so that a text is its ids; 1 and 2 end texts.
with_numbers() {
  mkdir "$work/$1"
  cp "$models/$1/config.json" "$models/$1/model.safetensors" "$work/$1"
  {
    printf '{"version": "1.0", "normalizer": null, "added_tokens": ['
    printf '{"id": 1, "content": "<1>", "special": true}, '
    printf '{"id": 2, "content": "<2>", "special": true}], '
    printf '"pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, '
    printf '"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, '
    printf '"model": {"type": "WordPiece", "unk_token": "w0", '
    printf '"continuing_subword_prefix": "##", "max_input_chars_per_word": 100, '
    printf '"vocab": {"w0": 0, "<1>": 1, "<2>": 2'
    for i in {3..210}; do printf ', "w%d": %d' "$i" "$i"; done
    printf '}}}\n'
  } >"$work/$1/tokenizer.json"
}
for family in bart t5 t5-gated; do with_numbers $family; done
bart=$work/bart t5=$work/t5 gated=$work/t5-gated
row='w203 w88 w105 w185 w117 w36 w165 w186 w108 w7 w52' # of the goldens
echo "$row" >"$work/row.txt"

run 0 summarize --help
says 'Usage: attend summarize'
without_tokenizers summarize --model "$t5" "$work/row.txt"

# What transformers writes: greedy and 4 beams, of three families.
writes() { # MODEL OPTIONS.. IDS
  local ids=${*: -1} model=$1
  set -- "${@:2:$#-2}"
  run 0 summarize --model "$model" "$@" --json "$work/row.txt"
  says "\"ids\": \\[${ids// /, }\\]"
}
writes "$bart" --beams 1 -n 15 "31 31 31 31 31 31 31 31 31 31 31 31 31 31 31"
writes "$bart" --beams 4 -n 10 "31 31 31 31 31 31 31 31 31 31"
writes "$t5" --beams 1 -n 15 "166 15 201 91 116 31 7 31 7 31 31 31 31 31 31"
writes "$t5" -n 10 "166 15 201 91 116 91 31 7 31 7" # 4 beams by default
writes "$gated" --beams 1 -n 15 "9 9 107 115 115 115 9 152 115 115 115 115 115 100 131"
writes "$gated" --beams 4 -n 10 "9 9 107 115 115 9 152 115 115 115"
says '"summary": "w9 w9 w107 w115 '
fields document number summary score log_probability words tokens end \
  document_tokens cut_tokens ids

# What the folder says of summaries: the prefix, beams, lengths that count the
# token that decoders start with; the command line says otherwise.
mkdir "$work/says"
cp "$t5"/*.json "$t5/model.safetensors" "$work/says"
task='{"prefix": "w203 w88 ", "num_beams": 4, "max_length": 11, "min_length": 10}'
task="\"task_specific_params\": {\"summarization\": $task},"
sed -i "1s/\$/ \"num_beams\": 2, \"max_length\": 4, $task/" "$work/says/config.json"
echo "${row#w203 w88 }" >"$work/rest.txt"
cp "$work/row.txt" "$work/whole.txt"
cp "$work/rest.txt" "$work/row.txt"
writes "$work/says" "166 15 201 91 116 91 31 7 31 7"
says '"document_tokens": 11, '
writes "$work/says" -n 3 --beams 1 "166 15 201"
cp "$work/whole.txt" "$work/row.txt"
# Settings of the wrong type are refused by name.
cp -r "$work/says" "$work/types"
refuse_setting() { # refuse_setting WORDS SED-COMMAND
  sed "$2" "$work/says/config.json" >"$work/types/config.json"
  complains 1 "$1" summarize --model "$work/types" "$work/row.txt"
}
refuse_setting 'prefix is 5: expected a string' 's/"prefix": "[^"]*"/"prefix": 5/'
refuse_setting 'num_beams is "4": expected' 's/"num_beams": 4/"num_beams": "4"/'
refuse_setting 'max_length is -1: expected' 's/"max_length": 11/"max_length": -1/'
refuse_setting 'length_penalty is "2": expected' '1s/$/ "length_penalty": "2",/'
refuse_setting 'early_stopping is 1: expected' '1s/$/ "early_stopping": 1,/'
echo '{"no_repeat_ngram_size": true}' >"$work/types/generation_config.json"
refuse_setting 'no_repeat_ngram_size is true: expected' ''

# What attend train made is its best step.
mkdir "$work/run"
ln -s ../says "$work/run/best"
run 0 summarize --model "$work/run" -n 3 --beams 1 "$work/rest.txt"
says '^w166 w15 w201$'

# A file, the standard input; several files have their names above.
run 0 summarize --model "$gated" --beams 1 -n 5 "$work/row.txt"
[[ $(cat "$work/out") == "w9 w9 w107 w115 w115" ]] || fail "says: $(cat "$work/out")"
[[ ! -s $work/err ]] || fail "noise: $(cat "$work/err")"
"$ATTEND" summarize --model "$gated" --beams 1 -n 5 <"$work/row.txt" | cmp - "$work/out" ||
  fail "the standard input's summary differs"
run 0 summarize --model "$gated" --beams 1 -n 5 "$work/row.txt" "$work/rest.txt"
says "^==> $work/rest.txt <==\$"

# A line of each line, whatever else is in the batch; empty ones stay empty.
printf '%s\n' "$row" '' 'w5' 'w5 w6 w7 w8' "$row" >"$work/lines"
for batch in 1 40; do
  "$ATTEND" summarize --lines --model "$t5" --batch $batch "$work/lines" \
    >"$work/lines$batch" 2>"$work/err"
done
cmp "$work/lines1" "$work/lines40" || fail "a batch changes summaries"
[[ $(wc -l <"$work/lines1") == 5 && -z $(sed -n 2p "$work/lines1") ]] ||
  fail "lines do not stay in step: $(cat "$work/lines1")"
grep -q '1 of 5 documents are empty, such as line 2 of' "$work/err" ||
  fail "an empty line is not reported: $(cat "$work/err")"
run 0 summarize --model "$t5" "$work/row.txt"
head -n 1 "$work/lines40" | cmp - "$work/out" || fail "alone it differs"
sed 's/.*/{"id": 1, "document": "&"}/;2s/""/" "/' "$work/lines" >"$work/rows.jsonl"
run 0 summarize --model "$t5" "$work/rows.jsonl"
cmp "$work/out" "$work/lines1" || fail "JSON lines differ from lines"
sed 's/document/body/' "$work/rows.jsonl" >"$work/body"
run 0 summarize --model "$t5" --field body "$work/body"
cmp "$work/out" "$work/lines1" || fail "--field differs"

# Five that differ, best first; the same again; another seed's are others.
texts() { sed -n 's/.*"summary": "\([^"]*\)".*/\1/p' "$work/out"; }
drawn=(summarize --model "$gated" --samples 5 --length 3 --json)
run 0 "${drawn[@]}" --lines "$work/lines"
cp "$work/out" "$work/five"
[[ $(grep -c '"number": 3, ' "$work/out") == 5 ]] || fail "not five"
[[ $(grep '"number": 3, ' "$work/out" | sort -u -t, -k3,3 | wc -l) == 5 ]] ||
  fail "not different: $(cat "$work/out")"
grep '"number": 3, ' "$work/out" | sed 's/.*"score": \([^,]*\),.*/\1/' >"$work/scores"
sort -rg "$work/scores" | cmp - "$work/scores" || fail "not best first"
run 0 "${drawn[@]}" --lines --batch 3 --threads 1 "$work/lines"
cmp "$work/out" "$work/five" || fail "the same seed draws others"
run 0 "${drawn[@]}" --seed 1 "$work/row.txt"
texts >"$work/other"
run 0 "${drawn[@]}" "$work/row.txt"
texts | cmp -s - "$work/other" && fail "every seed draws the same"
run 0 summarize --model "$gated" --samples 3 --length 3 "$work/row.txt"
says '^ *score +total +words +summary$'

# Fewer different summaries than requested are reported.
run 0 summarize --model "$bart" --samples 3 --top-k 1 -n 2 "$work/row.txt"
grep -q '1 different summary of 3 found: raise --temp' "$work/err" ||
  fail "too few are not reported: $(cat "$work/err")"

# The N best beams; groups: others than the best ones.
run 0 summarize --model "$t5" --beams 3 --samples 3 -n 6 --json "$work/row.txt"
[[ $(texts | sort -u | wc -l) == 3 ]] || fail "beams do not differ"
texts >"$work/beams"
run 0 summarize --model "$t5" --beams 3 --groups 3 -n 6 --json "$work/row.txt"
[[ $(texts | cut -d' ' -f1 | sort -u | wc -l) -gt \
  $(cut -d' ' -f1 <"$work/beams" | sort -u | wc -l) ]] ||
  fail "groups begin alike: $(texts)"

# --context bounds what is read, not what is written.
run 0 summarize --model "$t5" --context 3 --min 5 --length 6 --json "$work/row.txt"
says '"words": [56], .*"document_tokens": 3, "cut_tokens": 8'

# Words: at most, at least.
for n in 1 4; do
  run 0 summarize --model "$gated" --length $n "$work/row.txt"
  [[ $(wc -w <"$work/out") == "$n" ]] || fail "--length $n: $(cat "$work/out")"
done
run 0 summarize --model "$bart" --min 20 --length 21 --samples 2 --json "$work/row.txt"
[[ $(grep -Ec '"words": 2[01], ' "$work/out") == 2 ]] || fail "--min: $(cat "$work/out")"

# Sources: each word of the summary, with words of the document.
run 0 summarize --model "$t5" -n 4 --sources=2 "$work/row.txt"
says '^w166 +w[0-9]+ 0\.[0-9]+, w[0-9]+ 0\.[0-9]+$'
run 0 summarize --model "$t5" -n 4 --sources --json "$work/row.txt"
says '"sources": \[\{"word": "w166", "from": \[\{"word": "w[0-9]+", "weight": 0\.'

# The view of it opens at what points from the summary to the document.
if [[ $ATTEND_VIEW == ON ]]; then
  run 0 summarize --model "$t5" -n 4 --show --out "$work/shown.json" "$work/row.txt"
  grep -q '"role": *"cross"' "$work/shown.json" || fail "not cross-attention"
fi

# It opens at the step that wrote the first word: where the decoder looked then is what
# --sources counts, the mean over layers and heads.
if [[ $ATTEND_VIEW == ON && $ATTEND_TEXT == ON ]]; then
  echo 'The old bridge over the river is closed. The mayor said so on Tuesday.' >"$work/news.txt"
  pointer=(--model models/summarizer --tokens 12)
  run 0 summarize "${pointer[@]}" --show --out "$work/shown.json" "$work/news.txt"
  run 0 summarize "${pointer[@]}" --sources=1 --json "$work/news.txt"
  python3 - "$ATTEND" "$work/shown.json" "$work/out" "$work/news.txt" <<'PYTHON' ||
import json, subprocess, sys
attend, shown, counted, news = sys.argv[1], *(open(path).read() for path in sys.argv[2:])
shown, counted = json.loads(shown), json.loads(counted)
summary = counted[0] if isinstance(counted, list) else counted
token = shown["state"]["token"]
cross = next(r for r in shown["run"]["roles"] if r["role"] == "cross")
words = [w for w in summary["sources"]]
label = cross["row_labels"][token].removeprefix("→ ").strip("·")
assert words[0]["word"].startswith(label), (label, words[0])
# The tokens of the first word are the rows until one that begins another.
rows = [token]
while not cross["row_labels"][rows[-1] + 1].startswith("→ ·"):
    rows.append(rows[-1] + 1)
heads = ",".join(str(h) for h in range(cross["heads"]))
keys = shown["run"]["sides"]["encoder"]["labels"]
sums = {}
for layer in range(cross["layers"]):
    out = subprocess.run([attend, "view", "--model", "models/summarizer", "--view", "head",
                          "--role", "cross", "--layer", str(layer), "--head", heads, "--json",
                          news.strip(), summary["summary"]], capture_output=True, check=True).stdout
    for h in json.loads(out)["answers"]["heads"].values():
        for r in rows:
            spelled = []
            for k, key in enumerate(keys):
                if key.startswith("·") or k <= 1: spelled.append([])
                spelled[-1].append(k)
            for ks in spelled:
                word = "".join(keys[k].strip("·–") for k in ks).strip(".,")
                share = sum(h["weights"][r][k] for k in ks)
                sums[word] = sums.get(word, 0) + share / len(rows) / cross["layers"] / cross["heads"]
source = words[0]["from"][0]
assert abs(sums[source["word"]] - source["weight"]) < 0.01
PYTHON
    fail "--show does not open where --sources looks"
fi

# Long documents are truncated, with a warning that names the remedy.
printf 'w5 %.0s' {1..70} >"$work/long.txt"
run 0 summarize --model "$bart" -n 4 "$work/long.txt"
grep -q 'has 70 tokens and the model reads 64: the rest was left out; --long' \
  "$work/err" || fail "a cut is not reported: $(cat "$work/err")"
run 0 summarize --model "$t5" -n 4 --json "$work/long.txt"
says '"document_tokens": 70, "cut_tokens": 0, '
run 0 summarize --model "$t5" -n 4 --json --context 8 "$work/long.txt"
says '"document_tokens": 8, "cut_tokens": 62, '

# What cannot be: one sentence each.
printf ' \n\n' >"$work/empty.txt"
complains 1 'empty.txt is empty: there is nothing to summarize' \
  summarize --model "$t5" "$work/empty.txt"
complains 1 'no.txt cannot be opened' summarize --model "$t5" "$work/no.txt"
complains 2 'bert is an encoder and writes no summaries' \
  summarize --model "$models/bert" "$work/row.txt"
complains 2 'gpt2 is a decoder and writes no summaries.*generate' \
  summarize --model "$models/gpt2" "$work/row.txt"
complains 1 'has no tokenizer' summarize --model "$models/t5" "$work/row.txt"
mkdir "$work/nan"
cp "$t5"/*.json "$t5/model.safetensors" "$work/nan"
size=$(stat -c %s "$t5/model.safetensors")
head -c 40000 /dev/zero | tr '\0' '\377' |
  dd of="$work/nan/model.safetensors" bs=1 seek=$((size - 40000)) conv=notrunc \
    iflag=fullblock status=none
complains 1 'values that are not finite' summarize --model "$work/nan" "$work/row.txt"
run 1 summarize --model "$work/nan" --json "$work/row.txt"
[[ $(cat "$work/out") == '[]' ]] || fail "JSON is not whole after a failure"
for options in "--samples 3 --temp 0" "--beams 4 --top-p 0.9" "--groups 3 --beams 4" \
  "--diversity 1" "--groups 2 --temp 1" "--min 5 --length 4" "--beams 2 --samples 3" \
  "--out x.html" "--length 0"; do
  # shellcheck disable=SC2086 # several words
  run 2 summarize --model "$t5" $options "$work/row.txt"
done

# The first interrupt prints what is done.
printf "$row\n%.0s" {1..50000} >"$work/many"
"$ATTEND" summarize --lines --model "$t5" -n 3 --beams 1 "$work/many" \
  >"$work/out" 2>"$work/err" &
pid=$!
for ((i = 0; i < 600; i++)); do
  [[ $(wc -c <"$work/out") -lt 50 ]] || break
  sleep 0.05
done
kill -INT $pid
got=0
wait $pid || got=$?
((got == 130)) || fail "an interrupt exits with $got"
[[ $(sort -u "$work/out") == "w166 w15 w201" ]] || fail "lines are not whole"
grep -q "interrupted: $(wc -l <"$work/out") of 50000 documents are done" \
  "$work/err" || fail "an interrupt is not reported: $(cat "$work/err")"

# A head that config.json does not name is not passed over.
cp -r models/summarizer "$work/mute"
sed -i 's/"attend_copy_width"/"x"/' "$work/mute/config.json"
complains 1 '"attend_copy_width": 64' summarize --model "$work/mute" "$work/row.txt"
