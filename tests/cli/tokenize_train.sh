#!/usr/bin/env bash
# attend tokenize --train: learns a tokenizer that this program can use.
. "$(dirname "$0")/lib.bash"
text=${ATTEND_GOLDEN:-tests/golden}/trained/text.txt

without_tokenizers tokenize --train "$text" --out "$work/none"

run 0 tokenize --train --help
says 'Usage: attend tokenize .*--train DATA'
run 0 tokenize --help
says '--train '

# Learns, says what, and the result encodes and decodes.
run 0 tokenize --train "$text" --out "$work/gpt2" --vocab 600
says '^  kind +byte-level BPE, like gpt2$'
says '^  vocabulary +600 pieces: 1 special, 256 letters, 343 merges$'
says '^  text +98.5 KiB, [0-9]+ words, [0-9]+ different$'
says '^  tokens +[0-9]+, 2\.[0-9]+ bytes each$'
says '^  first +h\+e |^  first +Ġ\+t |^  first +t\+h '
says '^  last .*, the last [0-9]+ times$'
[[ ! -s $work/err ]] || fail "stderr: $(cat "$work/err")"
for file in tokenizer.json tokenizer_config.json special_tokens_map.json \
  vocab.json merges.txt; do
  [[ -s $work/gpt2/$file ]] || fail "there is no $file"
done
[[ $(find "$work/gpt2" -type f | wc -l) == 5 ]] || fail "other files"
printf '%s\n' '"To be, or not: café 北京 👍"' '"<|endoftext|>x\\u0001"' >"$work/in"
"$ATTEND" tokenize --jsonl "$work/gpt2" <"$work/in" >"$work/ids"
"$ATTEND" tokenize --jsonl --decode "$work/gpt2" <"$work/ids" >"$work/out"
cmp "$work/in" "$work/out" || fail "the text does not come back"
grep -q '^\[0, ' "$work/ids" || fail "<|endoftext|> is not one token"
"$ATTEND" tokenize --jsonl "$work/gpt2/vocab.json" <"$work/in" |
  cmp - "$work/ids" || fail "vocab.json gives other ids"

# The same files by other numbers of threads, in pieces, through a pipe.
same() { diff -r "$work/gpt2" "$1" >"$work/diff" || fail "$1: $(head -c 300 "$work/diff")"; }
run 0 tokenize --train "$text" --out "$work/one" --vocab 600 --threads 1
same "$work/one"
(cat "$text" && sleep 0.1) | "$ATTEND" tokenize --train - --out "$work/pipe" \
  --vocab 600 -t 3 >/dev/null
same "$work/pipe"
# All lines of this text are texts, as far as words can tell.
python3 -c 'import json, sys
for line in open(sys.argv[1], encoding="utf-8"):
    print(json.dumps({"id": 1, "text": line, "other": "zzzz zzzz zzzz"}))' \
  "$text" >"$work/lines.jsonl"
run 0 tokenize --train "$work/lines.jsonl" --out "$work/jsonl" --vocab 600
same "$work/jsonl"

# Fields, columns.
printf '%s\n' '{"document": "ab ab ab", "summary": "cd cd", "n": 5}' \
  '{"document": "ab", "summary": "cd"}' >"$work/two.jsonl"
run 0 tokenize --train "$work/two.jsonl" --out "$work/f1" --json
is_json 1
fields folder kind like vocab specials letters merges first_merge last_merge \
  last_count texts bytes words distinct tokens unknown bytes_per_token seconds
says '"merges": 3, "first_merge": "a b", .*"texts": 4, '
grep -q 'pairs for 260 of 8192 pieces' "$work/err" || fail "smaller: not reported"
run 0 tokenize --train "$work/two.jsonl" --out "$work/f2" --json --field document
says '"merges": 2, .*"texts": 2, '
run 0 tokenize --train "$work/two.jsonl" --out "$work/f3" --json \
  --field document --field summary
says '"texts": 4, '
printf 'ab ab\tab ab\ncd cd\t\n' >"$work/a.tsv"
run 0 tokenize --train "$work/a.tsv" --out "$work/f4" --json
says '"texts": 3, '
run 0 tokenize --train - --format jsonl --out "$work/f5" --json <"$work/two.jsonl"
says '"texts": 4, '

# Other kinds; special tokens.
run 0 tokenize --train "$text" --out "$work/bert" --like bert --lowercase \
  --vocab 700 --special '[A]'
says '^  kind +WordPiece, like bert$'
run 0 tokenize "$work/bert" '[A]The CAFÉ'
says '\[CLS\]'
says ' \[A\] '
says ' the '
run 0 tokenize --train "$text" --out "$work/bart" --like bart --vocab 600
run 0 tokenize --json "$work/bart" 'the <mask>'
says '"id": 0, "piece": "<s>"'
says '"id": 4, "piece": "<mask>"'
run 0 tokenize --train "$text" --out "$work/llama" --like llama --vocab 600
run 0 tokenize --json "$work/llama" a
is_json 2
run 0 tokenize --train "$text" --out "$work/kind" --kind wordpiece --vocab 700
says 'like bert'

# What is there is replaced only if asked, and then as a whole.
cp "$text" "$work/bert/notes.txt"
printf '\x1f\x8b\x08rest' >"$work/packed.txt"
complains 1 'packed by gzip; unpack it' tokenize --train "$work/packed.txt" --out "$work/t"
complains 1 'has a tokenizer, .*--force' tokenize --train "$text" --out "$work/bert"
run 0 tokenize --train "$text" --out "$work/bert" --vocab 600 --force
[[ ! -e $work/bert/vocab.txt && -e $work/bert/notes.txt ]] || fail "--force"
rm "$work/bert/notes.txt"
same "$work/bert"

# Zero bytes are bytes; what is not UTF-8 is refused.
printf 'a\0b a\0b' >"$work/odd"
run 0 tokenize --train "$work/odd" --out "$work/odd.out" --json
says '"texts": 1, "bytes": 7, '
printf 'a b \377' >"$work/latin"
complains 1 'byte 4 of .*latin is not UTF-8' tokenize --train "$work/latin" --out "$work/e"

: >"$work/empty"
complains 2 'no text to learn from' tokenize --train "$work/empty" --out "$work/e"
[[ ! -e $work/e ]] || fail "an empty folder is left behind"
complains 2 'it takes 257 at least' tokenize --train "$text" --out "$work/e" --vocab 256
complains 2 'it takes [0-9]+ at least, or a smaller alphabet' \
  tokenize --train "$text" --out "$work/e" --vocab 60 --like bert
complains 2 'cannot be a special token' tokenize --train "$text" --out "$work/e" \
  --special 'a b'
complains 1 'no/such/file cannot be opened' tokenize --train no/such/file --out "$work/e"
complains 1 'is a folder' tokenize --train "$work" --out "$work/e"
complains 1 'cannot be made' tokenize --train "$text" --out "$text/e"
printf '{"n": 5}\n' >"$work/bad.jsonl"
complains 1 'bad.jsonl, line 1 has no string.*--field' \
  tokenize --train "$work/bad.jsonl" --out "$work/e"
printf '"a"\n{\n' >"$work/bad.jsonl"
complains 1 'bad.jsonl, line 2' tokenize --train "$work/bad.jsonl" --out "$work/e"
run 2 tokenize --train "$text"
run 2 tokenize --train --out "$work/e"
run 2 tokenize --train "$text" --out "$work/e" --like gpt5
run 2 tokenize --train "$text" --out "$work/e" --like bert --kind bpe
run 2 tokenize --train "$text" --out "$work/e" --lowercase
[[ ! -e $work/e ]] || fail "a folder is left behind"

# A full disk is reported in one sentence, and previous files stay. The
# thread sanitizer's own files have half a megabyte, so these have more.
seq 100000 130000 >"$work/numbers"
if (
  trap '' XFSZ
  ulimit -f 600
  "$ATTEND" tokenize --train "$work/numbers" --out "$work/one" --force \
    --vocab 20000 --min-count 1 >"$work/out" 2>"$work/err"
); then fail "a full disk is not noticed"; fi
grep -q '^attend: .*tokenizer.json cannot be written: ' "$work/err" ||
  fail "not reported: $(cat "$work/err")"
same "$work/one"
