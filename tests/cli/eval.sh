#!/usr/bin/env bash
# attend eval: losses of goldens, windows and strides, masked models.
. "$(dirname "$0")/lib.bash"
stories=$models/stories260K

# field NAME: of the first row.
field() { sed -n "2s/.*\"$1\": \([^,}]*\).*/\1/p" "$work/out"; }
# near A B: to 1e-6
near() {
  awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d * d < 1e-12 * b * b) }' ||
    fail "$1 is not $2"
}

run 0 eval --help
says 'Usage: attend eval'
says 'scored once'

# Sequence 0 of the golden file; its loss was computed by PyTorch.
echo "203 88 105 185 117 36 165 186 108 7 52 193 124" >"$work/ids"
run 0 eval "$models/gpt2" --ids "$work/ids" --json
is_json 1
fields text method tokens bytes loss perplexity bits_per_byte context stride \
  complete seconds tokens_per_s
near "$(field loss)" 7.806372165679932
[[ $(field bytes) == null && $(field complete) == true ]] || fail "fields"

complains 2 't5 writes an answer' eval "$models/t5" --ids "$work/ids"
complains 2 'the 64 positions' eval "$models/gpt2" --ids "$work/ids" --context 65
complains 2 'some would never be scored' \
  eval "$models/gpt2" --ids "$work/ids" --context 8 --stride 9
complains 2 'no token to score' eval "$models/gpt2" --ids /dev/null
complains 1 'cannot be read' eval "$models/gpt2" --ids /no/such/file
complains 2 'ids alone are for decoders' eval "$models/bert" --ids "$work/ids"
run 2 eval

# Windows: any batch, the same bits; more context, less loss.
seq 3 202 | awk '{ print ($1 * 7919) % 211 }' >"$work/many"
run 0 eval "$models/gpt2" --ids "$work/many" --context 16 --stride 5 --json
loss=$(field loss)
[[ $(field tokens) == 199 ]] || fail "a token is scored twice, or not at all"
for batch in 1 3 200; do
  run 0 eval "$models/gpt2" --ids "$work/many" --context 16 --stride 5 --json \
    --batch $batch --threads $((1 + batch % 2))
  [[ $(field loss) == "$loss" ]] || fail "a batch of $batch gives other bits"
done
run 0 eval "$models/gpt2" --ids "$work/many" --limit 20 --json
[[ $(field tokens) == 20 ]] || fail "--limit"
run 0 eval "$models/gpt2" --ids "$work/many" "$work/ids"
says '^all +[0-9]+ '

without_tokenizers eval "$stories" "$work/ids"

# A text, in windows: the number was computed by plain loops in double.
printf '%s' "Tom had a red boat. He took it to the lake and it went far away, so he asked his big dog to help." >"$work/text"
run 0 eval "$stories" "$work/text" --context 32 --stride 10 --json
near "$(field loss)" 1.8159934127599262
[[ $(field bytes) == $(wc -c <"$work/text") ]] || fail "bytes: $(field bytes)"
"$ATTEND" eval "$stories" --context 32 --stride 10 --json <"$work/text" >"$work/out"
near "$(field loss)" 1.8159934127599262

# A masked model.
with_words bert
echo "the cat sat on the mat" >"$work/text"
run 0 eval "$work/bert" "$work/text" --json
says '"method": "masked", "tokens": 6, "bytes": 23, '
loss=$(field loss)
for batch in 1 6; do
  run 0 eval "$work/bert" "$work/text" --json --batch $batch
  [[ $(field loss) == "$loss" ]] || fail "masked: a batch of $batch, other bits"
done
run 0 eval "$work/bert" "$work/text" --context 4
says '^.* +6 +23 '
complains 2 'a stride is for decoders' eval "$work/bert" "$work/text" --stride 2

# Non-finite weights: the row is printed, and a sentence.
without_numbers "$work/bert"
run 1 eval "$work/bert" "$work/text"
says ' +6 +23 +- +-'
grep -q 'not finite' "$work/err" || fail "does not say that there is no loss"
complains 1 'cannot be read' eval "$work/bert" "$work"
