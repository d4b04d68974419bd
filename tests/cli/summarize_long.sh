#!/usr/bin/env bash
# attend summarize --long: every word is in a part; however it is interrupted, the
# answer is the same; misuse of a work directory is reported.
. "$(dirname "$0")/lib.bash"

# The golden models with words w3 .. w210, as in summarize.sh.
with_numbers() {
  mkdir "$work/$1"
  cp "$models/$1/config.json" "$models/$1/model.safetensors" "$work/$1"
  {
    printf '{"version": "1.0", "normalizer": null, "added_tokens": ['
    printf '{"id": 2, "content": "<2>", "special": true}], '
    printf '"pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, '
    printf '"decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, '
    printf '"model": {"type": "WordPiece", "unk_token": "w0", '
    printf '"continuing_subword_prefix": "##", "max_input_chars_per_word": 100, '
    printf '"vocab": {"w0": 0, "w1": 1, "<2>": 2'
    for i in {3..210}; do printf ', "w%d": %d' "$i" "$i"; done
    printf '}}}\n'
  } >"$work/$1/tokenizer.json"
}
with_numbers bart
with_numbers t5
bart=$work/bart t5=$work/t5

# text WORDS: sentences of a few words, paragraphs of a few sentences; one line is
# no sentence, but longer than any part.
text() {
  awk -v n="$1" 'BEGIN {
    srand(5)
    for (i = 1; i <= n; i++) {
      printf "w%d", 3 + int(207 * rand())
      if (i > 300 && i < 1300) printf " "
      else if (rand() < .1) printf rand() < .2 ? ".\n\nThe " : ". The "
      else printf " "
    }
    print "w7."
  }'
}
text 6000 >"$work/long.txt"
text 40 >"$work/short.txt"
words=$(wc -w <"$work/long.txt")
without_tokenizers summarize --model "$t5" "$work/short.txt"

# ---- chunks ----------------------------------------------------------------------
chunks=(summarize --model "$t5" --long chunks --beams 2 -n 12)
run 0 "${chunks[@]}" --tree "$work/long.txt"
cp "$work/out" "$work/tree"
[[ ! -s $work/err ]] || fail "it complains: $(cat "$work/err")"
# The leaves, in order, have all words; every node has those of its parts.
awk -v words="$words" '
  {
    match($0, /^ */); depth = RLENGTH / 2
    match($0, /\[words [0-9]+-[0-9]+\]$/)
    split(substr($0, RSTART + 7, RLENGTH - 8), at, "-")
    if (depth > deepest) deepest = depth
    first[NR] = at[1]; last[NR] = at[2]; depths[NR] = depth
  }
  END {
    if (deepest < 1) exit 1
    if (first[1] != 1 || last[1] != words) exit 2
    for (i = 1; i <= NR; i++) {
      if (depths[i] == deepest) {
        if (first[i] != leaf + 1) exit 3
        leaf = last[i]; leaves++
      } else if (first[i + 1] != first[i]) exit 4
    }
    if (leaf != words || leaves < 10) exit 5
  }' "$work/tree" || fail "the tree does not cover the text: $?"
run 0 "${chunks[@]}" --json --stats --threads 1 "$work/long.txt"
says '"long": "chunks"'
says '"cut_tokens": 0'
says '"first_word": 1, "last_word": '"$words"', "parts": \['
grep -q 'memory at most' "$work/err" || fail "no statistics"
run 0 "${chunks[@]}" "$work/long.txt"
cp "$work/out" "$work/want"
[[ $(wc -l <"$work/want") == 1 ]] || fail "not one summary"
[[ $(head -1 "$work/tree") == "$(cat "$work/want")  [words 1-$words]" ]] ||
  fail "the tree has another top"

# A document that fits is one part, and its summary the plain one.
run 0 summarize --model "$t5" --beams 2 -n 12 "$work/short.txt"
cp "$work/out" "$work/plain"
run 0 "${chunks[@]}" "$work/short.txt"
cmp "$work/out" "$work/plain"

run 0 "${chunks[@]}" --levels 1 --json "$work/long.txt"
grep -q '"parts"' "$work/out" && fail "one level has parts"
run 0 "${chunks[@]}" --parts 4 "$work/long.txt"
(($(wc -l <"$work/out") <= 4 && $(wc -l <"$work/out") > 1)) || fail "--parts 4"
run 0 summarize --model "$t5" --long chunks -n 12 --samples 3 --temp 1 --json \
  "$work/long.txt"
[[ $(grep -o '^ *{"document.*"score"' "$work/out" | sort -u | wc -l) == 3 ]] ||
  fail "three samples are not three"

# The page: whole, and what looks like markup is text.
(echo 'w5 <b>w6</b> & "w7".' && cat "$work/long.txt") >"$work/marks.txt"
run 0 "${chunks[@]}" --out "$work/tree.html" "$work/marks.txt"
grep -q 'w5 &lt;b&gt;w6&lt;/b&gt; &amp; &quot;w7&quot;' "$work/tree.html" ||
  fail "the page does not have the text"
[[ $(grep -o '<details' "$work/tree.html" | wc -l) == \
  $(grep -o '</details>' "$work/tree.html" | wc -l) ]] || fail "open details"
grep -q 'http' "$work/tree.html" && fail "the page needs something else"
complains 2 'ends in .html, not ".*tree.png"' "${chunks[@]}" \
  --out "$work/tree.png" "$work/short.txt"

# A blank document is a row without a summary; nothing but blanks is a failure.
echo ' ' >"$work/blank.txt"
for mode in chunks "linear --attention elu"; do
  # shellcheck disable=SC2086
  run 0 summarize --model "$bart" -n 3 --long $mode --json "$work/blank.txt" \
    "$work/short.txt"
  says '"number": 0, .*"summary": null, "score": null'
  says '"number": 1, .*"summary": "w'
  # shellcheck disable=SC2086
  complains 1 'nothing to summarize' summarize --model "$bart" --long $mode \
    "$work/blank.txt"
done

# Killed at any instant, and once more in the middle of a line.
kept=$work/kept/parts.jsonl
for delay in 0.05 0.1 0.15 0.2 0.3; do
  "$ATTEND" "${chunks[@]}" --work "$work/kept" "$work/long.txt" \
    >/dev/null 2>"$work/err" &
  child=$!
  sleep $delay
  kill -KILL $child 2>/dev/null || true
  wait $child 2>/dev/null || true
  [[ ! -s $work/err ]] || fail "a start after a kill complains: $(cat "$work/err")"
done
run 0 "${chunks[@]}" --work "$work/kept" "$work/long.txt"
cmp "$work/out" "$work/want"
whole=$(wc -l <"$kept")
head -c -20 "$kept" >"$work/torn" && cp "$work/torn" "$kept"
run 0 "${chunks[@]}" --work "$work/kept" --stats "$work/long.txt"
cmp "$work/out" "$work/want"
grep -q " $((whole - 2)) summaries from the journal" "$work/err" ||
  fail "not what was kept: $(cat "$work/err")"
[[ $(wc -l <"$kept") == "$whole" ]] || fail "lines were lost or doubled"
complains 2 'other options.*another work directory' "${chunks[@]}" -n 9 --work "$work/kept" \
  "$work/long.txt"
complains 2 'another model.*another work directory' "${chunks[@]}" --attention elu \
  --work "$work/kept" --model "$bart" "$work/long.txt"
complains 2 'another model, tokenizer, weight format' "${chunks[@]}" --weights int8 \
  --work "$work/kept" "$work/long.txt"
[[ $("$ATTEND" version) != *avx2* ]] ||
  complains 2 'instruction set' "${chunks[@]}" --isa scalar --work "$work/kept" \
    "$work/long.txt"
cp -r "$t5" "$work/other"
for file in config.json tokenizer.json; do
  cp "$t5/config.json" "$t5/tokenizer.json" "$work/other"
  echo >>"$work/other/$file"
  complains 2 'another model, tokenizer' "${chunks[@]}" --model "$work/other" \
    --work "$work/kept" "$work/long.txt"
done
# Letters of a summary, and a line of another journal.
cp "$kept" "$work/parts"
sed -i '3s/\("summary": "[^"]*\)w/\1W/' "$kept"
cmp -s "$kept" "$work/parts" && fail "no letter was changed"
complains 1 'line 3 of .* is damaged' "${chunks[@]}" --work "$work/kept" \
  "$work/long.txt"
run 0 "${chunks[@]}" -n 9 --work "$work/nine" "$work/long.txt"
(cat "$work/parts" && sed -n 2p "$work/nine/parts.jsonl") >"$kept"
complains 1 'line .* is damaged' "${chunks[@]}" --work "$work/kept" "$work/long.txt"
cp "$work/parts" "$kept"
run 0 "${chunks[@]}" --work "$work/kept" "$work/long.txt"
cmp "$work/out" "$work/want"
sed -i '3s/summary/sommaire/' "$kept"
complains 1 'line 3 of .* is damaged' "${chunks[@]}" --work "$work/kept" \
  "$work/long.txt"
echo 'something else' >"$kept"
complains 1 'damaged|not a journal' "${chunks[@]}" --work "$work/kept" \
  "$work/long.txt"

# ---- linear ----------------------------------------------------------------------
linear=(summarize --model "$bart" --long linear --attention elu --beams 2 -n 12)
run 0 summarize --model "$bart" --attention elu --beams 2 -n 12 --json \
  "$work/short.txt"
score=$(grep -o '"score": [^,]*' "$work/out")
run 0 "${linear[@]}" --json "$work/short.txt"
says "$score,"
says '"document_tokens": '
run 0 "${linear[@]}" --json "$work/long.txt"
cp "$work/out" "$work/want"
run 0 "${linear[@]}" --json --threads 1 "$work/long.txt"
cmp "$work/out" "$work/want"
for delay in 0.03 0.06 0.1; do
  "$ATTEND" "${linear[@]}" --work "$work/read" "$work/long.txt" \
    >/dev/null 2>"$work/err" &
  child=$!
  sleep $delay
  kill -INT $child 2>/dev/null || true
  wait $child 2>/dev/null || true
done
run 0 "${linear[@]}" --json --work "$work/read" "$work/long.txt"
cmp "$work/out" "$work/want"
complains 1 'another text.*another work directory' "${linear[@]}" --work "$work/read" \
  "$work/short.txt"
complains 1 'another model.*another work directory' "${linear[@]}" --weights int8 --work "$work/read" \
  "$work/long.txt"
cp -r "$work/read" "$work/whole"
for state in "$work"/read/*-cross-0-*.state; do
  printf '\1' | dd of="$state" bs=1 seek=$(($(stat -c %s "$state") / 2 + 3)) \
    conv=notrunc status=none
done
complains 1 'cross-0.*is damaged.*another work directory' "${linear[@]}" --work "$work/read" \
  "$work/long.txt"
truncate -s 50 "$work"/read/*-cross-0-*.state
complains 1 'cross-0.*is damaged.*another work directory' "${linear[@]}" --work "$work/read" \
  "$work/long.txt"
run 0 "${linear[@]}" --json --work "$work/whole" "$work/long.txt"
cmp "$work/out" "$work/want"

# A model that learnt softmax reads with favor, and says so.
run 0 summarize --model "$bart" --long linear -n 5 "$work/long.txt"
grep -q 'favor(m=256) in its place' "$work/err" || fail "nothing of favor"
complains 2 'by its distance' summarize --model "$t5" --long linear \
  --attention elu "$work/long.txt"
complains 2 'choose a linear form' summarize --model "$bart" --long linear \
  --attention softmax "$work/long.txt"

# ---- what does not go together -----------------------------------------------------
for wrong in "--long books" "--tree" "--long linear --parts 2" "--work x" \
  "--out x.html" "--long linear --sources"; do
  # shellcheck disable=SC2086
  run 2 summarize --model "$bart" $wrong "$work/short.txt"
done
echo '  ' >"$work/blank.txt"
for mode in chunks linear; do
  complains 1 'is empty' summarize --model "$bart" --long $mode --attention elu \
    "$work/blank.txt"
done
