#!/usr/bin/env bash
# attend summarize --extract: sentences with ranks, by words and by vectors.
. "$(dirname "$0")/lib.bash"

# notes PATTERN: in what it wrote beside its answer.
notes() { grep -Eq -- "$1" "$work/err" || fail "stderr does not say: $1"; }

run 2 summarize --extract=0
notes '--extract takes a number of sentences'
run 2 summarize --extract 120%
run 2 summarize --tau 1
notes 'go with --extract'
run 2 summarize --extract 3 --ranks --no-ranks
run 2 summarize --extract 3 --out page.txt
run 2 summarize --extract --tau 0
[[ $ATTEND_TEXT == ON ]] || exit 0 # no letters, no sentences

cat >"$work/text" <<'END'
The river <Ouse> flooded the old town & its
market. Boats carried people from the old town. My aunt likes tea.

The river Ouse flooded the old town, its market. Nobody in the town was hurt
when the river flooded it. Mr. Finch was pleased.
-----
The old market will open again, says the town.
END

# In the order of the text, ranks in front; the amount on either side of FILE.
run 0 summarize "$work/text" --extract 3 --embed words
[[ $(wc -l <"$work/out") == 3 ]] || fail "not three sentences"
says '^1  '
cp "$work/out" "$work/three"
for way in "--extract=3 $work/text" "--extract $work/text" "$work/text --extract 40%"; do
  # shellcheck disable=SC2086 # words
  run 0 summarize --embed words $way
  cmp "$work/out" "$work/three" || fail "$way: other sentences"
done
run 0 summarize --extract 3 --embed words --no-ranks <"$work/text"
cmp "$work/out" <(sed 's/^[0-9]*  //' "$work/three") || fail "--no-ranks"

# All of them: shares of one, offsets that lead to the sentence, and the one
# that says again what is chosen passed over.
run 0 summarize --extract 6 --ranks --embed words --json "$work/text"
python3 - "$work/out" "$work/text" <<'END' || fail "the ranks are not right"
import json, sys
rows, text = json.load(open(sys.argv[1])), open(sys.argv[2], "rb").read()
assert len(rows) == 7, len(rows)
assert abs(sum(r["centrality"] for r in rows) - 1) < 1e-9
assert sorted(r["rank"] for r in rows) == list(range(1, 8))
by_rank = sorted(rows, key=lambda r: r["rank"])
assert all(a["centrality"] >= b["centrality"] for a, b in zip(by_rank, by_rank[1:]))
for r in rows:
    assert " ".join(text[r["start"]:r["end"]].decode().split()) == r["text"], r
assert [r["sentence"] for r in rows] == [1, 2, 3, 4, 5, 6, 8]
again = [r for r in rows if r["same_as"]]
assert [(r["sentence"], r["same_as"]) for r in again] in ([(1, 4)], [(4, 1)]), again
assert not again[0]["chosen"] and sum(r["chosen"] for r in rows) == 6
assert {r["text"] for r in by_rank[-2:]} == {"My aunt likes tea.", "Mr. Finch was pleased."}
END
run 0 summarize --extract 6 --alike 1 --embed words --json "$work/text"
! grep -q '"same_as": [0-9]' "$work/out" || fail "--alike 1 passes over"

# A weight on the begin takes the begin.
run 0 summarize --extract 1 --lead 1000 --embed words --no-ranks "$work/text"
says '^The river <Ouse> flooded the old town & its market\.$'

# A page: the chosen marked, nothing of the text taken for tags.
run 0 summarize --extract 3 --embed words --out "$work/page.html" "$work/text"
[[ $(grep -o '<mark' "$work/page.html" | wc -l) == 3 ]] || fail "not three marks"
grep -q 'river &lt;Ouse&gt; flooded the old town &amp; its' "$work/page.html" ||
  fail "the page does not escape"
[[ $(grep -c '^<p>' "$work/page.html") == 4 ]] || fail "not four paragraphs"

# Documents by themselves, whatever else is in the list; nothing, and one.
printf '{"document": "One here. Two there. Two there again."}\n{"document": ""}
{"document": "Alone."}\n' >"$work/docs.jsonl"
run 0 summarize --extract 1 --embed words "$work/docs.jsonl"
notes 'line 2 of .*docs.jsonl has no sentences'
says '^line 1 of .*docs.jsonl$'
says '^1  Alone\.$'

# Vectors of a model: centrality is what its cosines make by the equation.
with_words bert
sentences=("the cat sat." "The dogs sat." "A dog ran." "the cat is a cat.")
printf '%s\n\n' "${sentences[@]}" >"$work/cats"
run 0 embed "$work/bert" --json "${sentences[@]}"
cp "$work/out" "$work/cosines"
for threads in 1 2; do
  run 0 summarize -t $threads --extract --embed "$work/bert" --tau 0.2 --ranks \
    --json "$work/cats"
  cp "$work/out" "$work/cats.$threads"
done
cmp "$work/cats.1" "$work/cats.2" || fail "bits depend on the threads"
python3 - "$work/cosines" "$work/cats.1" <<'END' || fail "not the equation's"
import json, math, sys
cosines = [r["cosines"] for r in json.load(open(sys.argv[1]))]
got = [r["centrality"] for r in json.load(open(sys.argv[2]))]
z = [sum(math.exp(c / 0.2) for j, c in enumerate(row) if j != i)
     for i, row in enumerate(cosines)]
for a, b in zip(got, z):
    assert abs(a * sum(z) / b - 1) < 1e-4, (got, z)
assert len(got) == len(z) == 4
END

# The encoder of a summarizer will do too.
with_words t5
run 0 summarize --extract 2 --embed "$work/t5" --no-ranks "$work/cats"
[[ $(wc -l <"$work/out") == 2 ]] || fail "t5: not two sentences"

run 0 summarize --extract 1 --embed words --json "$work/docs.jsonl"
says '"number": 2, "sentence": 1, '

# Files without a sentence are a failure.
complains 1 'has no sentences' summarize --extract --embed words /dev/null
