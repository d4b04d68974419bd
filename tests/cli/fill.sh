#!/usr/bin/env bash
# attend fill: tokens in the place of masks.
. "$(dirname "$0")/lib.bash"

for family in bert roberta distilbert gpt2 bart; do with_words $family; done

without_tokenizers fill "$work/bert" "a [MASK]"

run 0 fill --help
says 'Usage: attend fill'

for family in bert roberta distilbert; do
  run 0 fill "$work/$family" "the cat [MASK] on the mat"
  [[ $(wc -l <"$work/out") == 6 ]] || fail "$family: not the five best"
  says '^   1  [^ ]+ +0\.[0-9]{3}  the cat ?[^ ]+ on the mat$'
done

# All spellings are one; probabilities fall, and all of them sum to 1.
run 0 fill "$work/bert" --json --top 211 "a [MASK] sat"
is_json 211
fields line mask rank token id probability text
cp "$work/out" "$work/one"
for mask in '<mask>' ___ ______; do
  run 0 fill "$work/bert" --json --top 211 "a $mask sat"
  cmp "$work/out" "$work/one" || fail "$mask is not [MASK]"
done
sed -n 's/.*"probability": \([^,]*\),.*/\1/p' "$work/one" |
  awk '{ sum += $1; if (NR > 1 && $1 > last) exit 1; last = $1 }
       END { if (NR != 211 || sum < 0.999999 || sum > 1.000001) exit 1 }' ||
  fail "probabilities"
# A WordPiece that continues a word joins it.
says '"token": "##s", "id": 12, .*"text": "as sat"'

# Several masks, a second text, several texts.
run 0 fill "$work/bert" "the [MASK] sat on [MASK]"
says '^mask 1 of 2$'
says '^mask 2 of 2$'
says '^   1 .* the \[MASK\] sat on [^ ]+$'
run 0 fill "$work/bert" --json --top 1 --pair "a [MASK] ." "the [MASK]"
is_json 2
says '"mask": 2, .*"text": "a [^ ]+ \."'
printf 'the [MASK]\na ___ sat\n' >"$work/in"
"$ATTEND" fill "$work/bert" --json --top 3 <"$work/in" >"$work/out"
is_json 6
says '"line": 2, "mask": 1, "rank": 3, '

# Encoder-decoders: BART rewrites the text, T5 writes between its sentinels.
run 0 fill "$work/bart" --top 2 --json "the [MASK] sat"
is_json 2
says '"rank": 2, .*"id": null, "probability": '
mkdir "$work/t5"
cp "$models/t5/config.json" "$models/t5/model.safetensors" "$work/t5"
{
  printf '{"model": {"type": "WordPiece", "unk_token": "<unk>",
    "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    "vocab": {"<unk>": 0'
  for i in {1..208}; do printf ', "w%d": %d' "$i" "$i"; done
  printf ', "<extra_id_0>": 209, "<extra_id_1>": 210}},
    "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": null, "decoder": {"type": "WordPiece", "prefix": "##",
    "cleanup": false}, "added_tokens": ['
  for i in 0 1; do
    printf '{"id": %d, "content": "<extra_id_%d>", "single_word": false,
      "lstrip": false, "rstrip": false, "normalized": false, "special": true}' \
      $((209 + i)) "$i"
    ((i)) || printf ', '
  done
  printf ']}'
} >"$work/t5/tokenizer.json"
run 0 fill "$work/t5" --top 2 --json "w1 [MASK] w2 [MASK]"
is_json 4
says '"mask": 2, "rank": 2, .*"text": "w1 <extra_id_0> w2 '

complains 1 'cannot fill masks: it continues texts' fill "$work/gpt2" "a [MASK]"
complains 2 'text 1: there is no mask: write \[MASK\]' fill "$work/bert" "a cat"
complains 1 'longer than the 40 tokens' fill "$work/bert" "[MASK] $(seq -s ' ' 99)"
complains 2 'is for encoders' fill "$work/bart" --pair x "a [MASK]"
complains 1 'no model .* fills masks: run attend pull hf:' fill 'a [MASK]'
run 2 fill "$work/bert" --top 0 "a [MASK]"

# Non-finite weights.
without_numbers "$work/bert"
complains 1 'not finite' fill "$work/bert" "a [MASK]"
