#!/usr/bin/env bash
# The models that ship: found by their names, within 16 MB, and they know English.
. "$(dirname "$0")/lib.bash"
models=$(cd "$(dirname "$0")/../../models" && pwd)
export ATTEND_MODELS=$models

run 0 show attend:gutenberg
says 'gpt2, decoder'
size=$(stat -c %s "$models/gutenberg/model.safetensors")
((size <= 16000000)) || fail "the weights take $size bytes"
for file in README.md recipe log.jsonl loss.svg tokenizer.json vocab.json; do
  [[ -s $models/gutenberg/$file ]] || fail "models/gutenberg has no $file"
done

without_tokenizers eval attend:gutenberg
# Drawing tokens blindly would have a perplexity of 4096.
printf '%s' "The old man sat down by the fire, and said that he had walked a great way \
through the snow. His wife gave him something to eat, and asked him what he had seen." \
  >"$work/text"
run 0 eval attend:gutenberg "$work/text" --json
python3 - "$work/out" <<'END' || fail "it does not know English"
import json, sys
row = json.load(open(sys.argv[1]))[0]
print(row["perplexity"])
sys.exit(row["perplexity"] > 120)
END

run 0 generate attend:gutenberg --prompt "It was" -n 40 --seed 5
cp "$work/out" "$work/first"
run 0 generate attend:gutenberg --prompt "It was" -n 40 --seed 5 --threads 1
cmp "$work/first" "$work/out" || fail "another text with another number of threads"

# The summarizer: better than the lead sentence on packages that it has not seen.
run 0 show attend:summarizer
says 'encoder     3 layers of width 192'
says 'decoder     4 layers of width 256'
size=$(stat -c %s "$models/summarizer/model.safetensors")
((size <= 16000000)) || fail "the weights take $size bytes"
for file in README.md recipe log.jsonl loss.svg tokenizer.json vocab.json; do
  [[ -s $models/summarizer/$file ]] || fail "models/summarizer has no $file"
done
pairs=$(dirname "$0")/../golden/summaries.jsonl
rouge() {
  run 0 eval --rouge --data "$pairs" --json "$@"
  python3 -c 'import json, sys; print(json.load(sys.stdin)["rouge1"])' <"$work/out"
}
lead=$(rouge --baseline lead)
wrote=$(rouge)
python3 -c "import sys; sys.exit(not $wrote > max(0.36, $lead + 0.04))" ||
  fail "ROUGE-1 is $wrote, the lead sentence has $lead"

# Beams find what is likelier than taking the best token each time.
mean_score() {
  run 0 summarize "$pairs" --json "$@"
  python3 -c 'import json, sys
scores = [row["score"] for row in json.load(sys.stdin)]
print(sum(scores) / len(scores))' <"$work/out"
}
greedy=$(mean_score --beams 1)
beams=$(mean_score)
python3 -c "import sys; sys.exit(not $beams > $greedy)" ||
  fail "4 beams have a mean score of $beams, one has $greedy"

# Five that differ, and the same five from the same seed.
head -n 1 "$pairs" >"$work/one.jsonl"
run 0 summarize "$work/one.jsonl" --samples 5 --seed 3
[[ $(sort -u "$work/out" | wc -l) -ge 5 ]] || fail "five samples are not five"
cp "$work/out" "$work/first"
run 0 summarize "$work/one.jsonl" --samples 5 --seed 3 --threads 1
cmp "$work/first" "$work/out" || fail "another five from the same seed"
run 0 summarize "$work/one.jsonl" --samples 5 --seed 4
cmp -s "$work/first" "$work/out" && fail "the same five from another seed"

complains 1 'does not come with this program: these do: .*attend:gutenberg' \
  show attend:nothing
ATTEND_MODELS=$work complains 1 'does not come with this program' show attend:x
