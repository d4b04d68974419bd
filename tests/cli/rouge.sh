#!/usr/bin/env bash
# attend eval --rouge: ready summaries, baselines, models; what is wrong with a file.
. "$(dirname "$0")/lib.bash"

# value NAME: of the object that was printed; number NAME MEMBER: of one inside.
value() { sed -n "s/^  \"$1\": \([^,{]*\),\{0,1\}\$/\1/p" "$work/out"; }
number() { sed -n "s/.*\"$1\": {.*\"$2\": \([^,}]*\).*/\1/p" "$work/out"; }
is() { [[ $2 == "$3" ]] || fail "$1 is $2, not $3"; }

run 0 eval --rouge --help
says 'Usage: attend eval'
says 'rouge_score'
says '  -n, --tokens'

cat >"$work/pairs.jsonl" <<'END'
{"document": "The tool draws plots. It reads tables from files.", "summary": "draws plots of tables", "split": "test"}

{"document": "A library for sorting. Fast.", "summary": ["sorting library", "library of sorted lists"], "split": "test"}
{"document": "One more. It is not asked for.", "summary": "another", "split": "train"}
END
printf '%s\n' 'draws plots of tables' 'a library for sorting' '' >"$work/predictions.txt"

# Ready summaries, beside one reference or several; numbers by hand.
run 0 eval --rouge --data "$work/pairs.jsonl" --predictions "$work/predictions.txt" \
  --limit 2 --json --out "$work/each.jsonl"
is rouge1 "$(value rouge1)" 0.8333333333333333 # 1 and 2/3
is rouge2 "$(value rouge2)" 0.5
is rougeL "$(value rougeL)" 0.6666666666666666 # 1 and 1/3
is documents "$(value documents)" 2
is complete "$(value complete)" true
is stem "$(value stem)" false
is words "$(number summary_words mean)" 4
is 'new words' "$(number new_words mean)" 0.125 # "of" is not in the source
sed -n 2p "$work/each.jsonl" | grep -q '"line": 3, "summary": "a library for sorting"' ||
  fail "--out does not say the second line: $(cat "$work/each.jsonl")"
cp "$work/out" "$work/first"

# What --out wrote can be scored again, to the same numbers.
run 0 eval --rouge --data "$work/pairs.jsonl" --limit 2 --json \
  --predictions "$work/each.jsonl"
diff <(grep -v 'predictions\|seconds' "$work/first") \
  <(grep -v 'predictions\|seconds' "$work/out") || fail "scored again, other numbers"

# An empty line is an empty summary; a pair needs no document here.
run 0 eval --rouge --data "$work/pairs.jsonl" --predictions "$work/predictions.txt"
says '^rouge2 +0\.333 +0\.333 +0\.333 +0\.000 \.\. 1\.000$'
says '^1 of the summaries have no word$'
echo '{"text": "two words"}' >"$work/bare.jsonl"
echo 'two' | "$ATTEND" eval --rouge --data "$work/bare.jsonl" --answer-field text \
  --predictions - --json >"$work/out"
is rouge1 "$(value rouge1)" 0.6666666666666666
is 'new words' "$(value new_words)" null

# Stems, lines, columns.
printf 'about dogs\tdogs running fast\n' >"$work/pairs.tsv"
echo 'A dog runs' >"$work/predictions.txt"
run 0 eval --rouge --data "$work/pairs.tsv" --predictions "$work/predictions.txt" --json
is rouge1 "$(value rouge1)" 0
run 0 eval --rouge --data "$work/pairs.tsv" --predictions "$work/predictions.txt" --json --stem
is rouge1 "$(value rouge1)" 0.6666666666666666
printf '{"summary": "a b\\nc d"}\n' >"$work/lines.jsonl"
printf '"c d\\na b"\n' >"$work/predictions.jsonl"
run 0 eval --rouge --data "$work/lines.jsonl" --predictions "$work/predictions.jsonl" \
  --lines --json
is rougeLsum "$(value rougeLsum)" 1
is rougeL "$(value rougeL)" 0.5

# Baselines.
run 0 eval --rouge --data "$work/pairs.jsonl" --where split=test \
  --baseline words:2 --json --out "$work/each.jsonl"
is documents "$(value documents)" 2
is baseline "$(value baseline)" '"words:2"'
grep -q '"summary": "The tool", ' "$work/each.jsonl" || fail "not the first words"
[[ $ATTEND_TEXT == OFF ]] || {
  run 0 eval --rouge --data "$work/pairs.jsonl" --baseline lead --out "$work/each.jsonl"
  grep -q '"summary": "The tool draws plots\.", ' "$work/each.jsonl" ||
    fail "not the lead sentence"
}

# What does not go together, and what is wrong with a file.
run 2 eval --rouge
run 2 eval --rouge --data "$work/pairs.jsonl" --baseline first
run 2 eval --rouge --data "$work/pairs.jsonl" --baseline words:0
run 2 eval --rouge --data "$work/pairs.jsonl" --where test --baseline lead
run 2 eval --rouge --data "$work/pairs.jsonl" --baseline lead "$models/bart"
run 2 eval --rouge --data "$work/pairs.jsonl" --baseline lead --predictions x
predictions=(--predictions "$work/predictions.txt")
complains 1 'cannot be read' eval --rouge --data /no/such/file "${predictions[@]}"
complains 1 'it is a directory' eval --rouge --data "$work" "${predictions[@]}"
complains 1 'has 1 summaries, and there are 3 pairs' \
  eval --rouge --data "$work/pairs.jsonl" "${predictions[@]}"
complains 1 'pairs.jsonl, line 1 has no text called "text": .*--field' \
  eval --rouge --data "$work/pairs.jsonl" --field text "${predictions[@]}"
complains 1 'line 1 has no text called "summary" or "target": .*--answer-field' \
  eval --rouge --data "$work/bare.jsonl" "${predictions[@]}"
complains 1 'no pair .* --where' \
  eval --rouge --data "$work/pairs.jsonl" --where split=dev --baseline lead
complains 2 'has columns' \
  eval --rouge --data "$work/pairs.tsv" --where a=b --baseline lead
printf '{"summary": "x"}\n{"summary": ' >"$work/broken.jsonl"
complains 1 'broken.jsonl, line 2' eval --rouge --data "$work/broken.jsonl" "${predictions[@]}"
echo nothing >"$work/none.tsv"
complains 1 'line 1 has no tab' eval --rouge --data "$work/none.tsv" "${predictions[@]}"
printf '\037\213\010\0\0\0\0\0' >"$work/packed.jsonl"
run 1 eval --rouge --data "$work/packed.jsonl" "${predictions[@]}"
if [[ -e /dev/full ]]; then
  "$ATTEND" eval --rouge --data "$work/pairs.tsv" "${predictions[@]}" >/dev/full \
    2>"$work/err" && fail "a full disk is no failure"
fi
# What is no file is written to and stays what it is.
mkfifo "$work/pipe"
cat "$work/pipe" >"$work/piped" &
run 0 eval --rouge --data "$work/pairs.tsv" "${predictions[@]}" --out "$work/pipe"
wait $!
[[ -p $work/pipe && -s $work/piped ]] || fail "a pipe was replaced"
complains 1 'it is a folder' \
  eval --rouge --data "$work/pairs.tsv" "${predictions[@]}" --out "$work"
complains 1 'cannot be' \
  eval --rouge --data "$work/pairs.tsv" "${predictions[@]}" --out "$work/predictions.txt/each"

without_tokenizers eval --rouge "$models/bart" --data "$work/pairs.jsonl"

# A model: any batch and any number of threads write and score the same; the words
# that the bound allows, and no more.
with_words bart
awk 'BEGIN {
  for (i = 1; i <= 12; i++) {
    line = "the cat sat"
    for (j = 0; j < i * 5 % 7; j++) line = line " w" i * (j + 3) % 150
    printf "{\"document\": \"%s\", \"summary\": \"w%d cat\"}\n", line, i
  }
}' >"$work/many.jsonl"
run 0 eval --rouge "$work/bart" --data "$work/many.jsonl" --tokens 6 --beams 2 --json \
  --out "$work/each.jsonl"
is documents "$(value documents)" 12
cp "$work/each.jsonl" "$work/first"
run 0 eval --rouge -m "$work/bart" --data "$work/many.jsonl" --tokens 6 --beams 2 \
  --batch 3 --threads 1 --out "$work/each.jsonl"
cmp -s "$work/first" "$work/each.jsonl" || fail "another batch, other summaries"
run 0 eval --rouge "$work/bart" --data "$work/many.jsonl" --tokens 20 --beams 1 \
  --length 2 --attention elu --json --out "$work/each.jsonl"
is attention "$(value attention)" '"elu"'
grep -Eq '"words": ([3-9]|[0-9]{2})' "$work/each.jsonl" && fail "--length 2 is not kept"
complains 2 'is an encoder' eval --rouge "$models/bert" --data "$work/many.jsonl"

# Interrupted: what is done is printed and written, and reported as incomplete. The pipe
# is empty when nearly all of it was read.
awk '{ for (i = 0; i < 400; i++) print }' "$work/many.jsonl" >"$work/more.jsonl"
rm -f "$work/each.jsonl"
mkfifo "$work/pipe.jsonl"
"$ATTEND" eval --rouge "$work/bart" --data "$work/pipe.jsonl" --tokens 60 --beams 4 \
  --min 50 --json --out "$work/each.jsonl" >"$work/out" 2>"$work/err" &
child=$!
cat "$work/more.jsonl" >"$work/pipe.jsonl"
sleep 1
kill -INT $child
code=0
wait $child || code=$?
is 'the exit code' "$code" 130
done=$(sed -n 's/.*interrupted: the numbers are of \([0-9]*\) of 4800 .*/\1/p' "$work/err")
[[ -n $done ]] || fail "not reported as incomplete: $(cat "$work/err")"
((done == 0)) || {
  is complete "$(value complete)" false
  is documents "$(value documents)" "$done"
  is lines "$(wc -l <"$work/each.jsonl")" "$done"
}
