#!/usr/bin/env bash
# attend compare: a form against itself changes nothing, others change what they
# must, on decoders, encoders and both; JSON has the maps; faults are sentences.
. "$(dirname "$0")/lib.bash"

ids="3 14 15 92 65 35 89 79 32 38"

for family in gpt2 bert t5; do
  run 0 compare "$models/$family" --ids "$ids" --form softmax --form softmax \
    --form argmax --form "favor(m=64)" --json
  python3 - "$work/out" $family <<'P' || fail "$family: the numbers do not hold"
import json, sys
rows = json.load(open(sys.argv[1]))
first, same, argmax, favor = rows
assert [r["form"] for r in rows] == ["softmax", "softmax", "argmax", "favor(m=64)"]
for r in (first, same):
    assert r["agreement"] == 1 and r["drift"] < 1e-6 and r["hidden"] == 0, r
    assert r["attention"] == 0, r
for r in (argmax, favor):
    assert 0 < r["attention"] <= 2 and r["hidden"] > 0, r
    heads = [h for layer in r["attention_heads"] for h in layer]
    assert abs(sum(heads) / len(heads) - r["attention"]) < 1e-9
if sys.argv[2] == "gpt2":
    assert same["loss"] == first["loss"] > 0
    assert same["direct"] == 0 and 0 < argmax["direct"] <= 1
    assert favor["cache_bytes"] > 0 and first["token_s"] > 0
if sys.argv[2] == "bert":
    assert first["loss"] is None and first["token_s"] is None
P
done

# argmax of the same queries and keys: the difference is 1 - the best weight,
# which is the largest for the first row, that sees itself alone.
run 0 compare "$models/stories260K" --ids "1 403 407 261 378" --heads \
  --form softmax --form argmax
says 'argmax: attention difference, layers down, heads across'
[[ $(grep -cE '^ +[0-4] .* 0\.[0-9]{3}$' "$work/out") == 5 ]] ||
  fail "not a line for each of five layers"

run 0 compare "$models/gpt2" --ids "$ids" --limit 4 --no-attention
grep -q 'comparing over the first 4 of 10 tokens' "$work/err" ||
  fail "does not say that the text was cut"
says '^favor\(m=256\)'

complains 2 'is not a form' compare "$models/gpt2" --ids "$ids" --form nothing
complains 2 'at least two' compare "$models/gpt2" --ids "5"
complains 1 'tokenizer' compare "$models/gpt2" --text "there is none"
complains 1 'cannot be (read|loaded)' compare "$models/stories260K" --file "$work"
