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

complains 1 'does not come with this program: these do: .*attend:gutenberg' \
  show attend:nothing
ATTEND_MODELS=$work complains 1 'does not come with this program' show attend:x
