#!/usr/bin/env bash
# attend tokenize: ids, pieces and places; lines of JSON; and back.
. "$(dirname "$0")/lib.bash"
golden=${ATTEND_GOLDEN:-tests/golden}/tokens

without_tokenizers tokenize "$golden/tok512.bin" x

run 0 tokenize --help
says 'Usage: attend tokenize'

run 0 tokenize "$golden/gpt2-vocab.json" Hello world
says '^ +0 +15496 +Hello +0 +5 +0$'
says '^ +1 +995 +Ġworld +5 +11 +0$'

run 0 tokenize --json "$golden/bert-tokenizer.json" "Hello, world"
is_json 5
fields token id piece start end type part
says '"id": 101, "piece": "\[CLS\]", "start": null, .*"part": "special"'
says '"id": 7592, "piece": "hello", "start": 0, "end": 5, '

run 0 tokenize --json --no-special --pair world "$golden/bert-vocab.txt" Hello
is_json 2
says '"id": 2088, .*"type": 1, "part": "pair"'

# The standard input, byte for byte.
printf 'a\nb' >"$work/in"
"$ATTEND" tokenize --json "$golden/gpt2-vocab.json" <"$work/in" >"$work/out"
is_json 3
says '"id": 198, '

# Lines in, lines out, and back.
printf '"Hello world"\n""\n"x\\ny"\n' >"$work/in"
"$ATTEND" tokenize --jsonl "$golden/gpt2-vocab.json" <"$work/in" >"$work/ids"
[[ $(sed -n 1p "$work/ids") == "[15496, 995]" ]] || fail "ids: $(cat "$work/ids")"
[[ $(sed -n 2p "$work/ids") == "[]" ]] || fail "no ids: $(cat "$work/ids")"
"$ATTEND" tokenize --jsonl --decode "$golden/gpt2-vocab.json" <"$work/ids" \
  >"$work/out"
cmp "$work/in" "$work/out" || fail "lines do not come back"

run 0 tokenize --decode "$golden/gpt2-merges.txt" 15496 995
[[ $(cat "$work/out") == "Hello world" ]] || fail "decode: $(cat "$work/out")"
run 0 tokenize --decode --no-special "$golden/bert-vocab.txt" 101 7592 102
[[ $(cat "$work/out") == "hello" ]] || fail "decode: $(cat "$work/out")"

# Truncation is reported.
run 0 tokenize --max-length 4 "$golden/bert-vocab.txt" "a b c d"
grep -q '2 ids are beyond --max-length 4' "$work/err" || fail "not reported"

# Files that ask for much: a template of 32 texts, a text that doubles 40 times,
# a pattern that looks ahead without end.
model='"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}'
texts=$(printf '{"Sequence": {"id": "A", "type_id": 0}}, %.0s' {1..32})
steps=$(printf '{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}, %.0s' {1..40})
cat >"$work/template.json" <<END
{$model, "post_processor": {"type": "TemplateProcessing", "special_tokens": {},
 "single": [${texts%, }], "pair": []}}
END
cat >"$work/replace.json" <<END
{$model, "normalizer": {"type": "Sequence", "normalizers": [${steps%, }]}}
END
cat >"$work/pattern.json" <<END
{$model, "pre_tokenizer": {"type": "Split", "behavior": "Isolated",
 "pattern": {"Regex": "a(?=(?:a|aa){0,22}b|)"}}}
END
text=$(printf 'a%.0s' {1..4096})
run 0 tokenize --json "$work/template.json" "$text"
is_json 131072
complains 1 'more than 32 bytes of each byte' tokenize "$work/replace.json" aaaa
complains 1 'takes too many steps' tokenize "$work/pattern.json" "$text"

complains 1 'there is no folder /no/such/model' tokenize /no/such/model x
complains 1 'has no tokenizer' tokenize "$work" x
complains 2 'no id' tokenize --decode "$golden/tok512.bin" 1 two
complains 2 'ids from 0 to 511' tokenize --decode "$golden/tok512.bin" 512
complains 2 'leave the text away' tokenize --jsonl "$golden/tok512.bin" x
printf '{}\n' >"$work/in"
complains 1 'line 1 is not a JSON string' tokenize --jsonl \
  "$golden/tok512.bin" <"$work/in"

# a standard input that cannot be read
for how in "" --decode --jsonl; do
  # shellcheck disable=SC2086
  complains 1 'the standard input cannot be read: Is a directory' \
    tokenize $how "$ATTEND_GOLDEN/tokens/gpt2-vocab.json" <"$work"
done
