#!/usr/bin/env bash
# Designs: all that ship are right for every input; a wrong one is refused with its
# first counterexample; weights survive a file; twins learn; pictures and pages
# hold the numbers.
. "$(dirname "$0")/lib.bash"
shipped="content position unique previous induction sort brackets"

# ---- all of them ---------------------------------------------------------------
run 0 design --list
for name in $shipped; do says "^$name\$"; done
run 0 design --all
for name in $shipped; do says "^$name +ok "; done
run 0 design --all --json
is_json 7
fields design ok inputs places wrong margin counterexample least_sharpness
[[ $(grep -c '"ok": true' "$work/out") == 7 ]] || fail "not all are ok"
says '"design": "content", "ok": true, "way": "argmax", "inputs": 120, '
says '"design": "brackets", "ok": true, "way": "argmax", "inputs": 511, '

for name in $shipped; do
  [[ -s docs/figures/design-$name.svg ]] || fail "no figure of $name: tools/figures"
done

# ---- one -----------------------------------------------------------------------
run 0 design content
says '^argmax +right for all 120 inputs \(426 answers\), lead 1$'
says '^sharpness +softmax passes from 1\.098[67]' # ln 3: one letter against three
run 0 design induction --run ABCAB
says '^ +4 +A +B +B '
says '^ +5 +B +C +C '
run 0 design previous --run "C A" --json
is_json 3
says '"place": 1, "token": "C", "expected": "none", "predicted": "none"'
run 0 design sort --check --length 3
run 0 design content --sharpness 1.1 --check
run 0 design content --terminal
says '^layer 0, head "same"$'
says '^ +Km +Qm +Vm +K +Q +V'

# ---- what is wrong is refused ----------------------------------------------------
run 1 design content --sharpness 1.09 --check
says 'WRONG for [0-9]+ of 120 inputs, first "AAAB": place 3 should give "B", gives "A"'
run 0 design previous --spec
sed 's/"offset": -1/"offset": 0/' "$work/out" >"$work/wrong.json"
run 1 design "$work/wrong.json" --out "$work/wrong.safetensors"
says 'WRONG for 120 of 120 inputs, first "A": place 1 should give "none", gives "A"'
grep -q 'for "A" place 1 should give "none" and gives "A"; 120 of 120' \
  "$work/err" || fail "the counterexample: $(cat "$work/err")"
[[ ! -e $work/wrong.safetensors ]] || fail "a wrong design was written"
run 1 design "$work/wrong.json" --json
is_json 1
says '"ok": false.*"counterexample": "A", "counterexample_place": 1, "expected": "none", "predicted": "A"'
run 1 design previous --run AABA --sharpness 1
says 'FAILED'

complains 2 'there is no design "sorting": name one of content' design sorting
complains 1 'cannot be opened' design "$work/nosuch.json"
echo '{"name": "x", "alfabet": []}' >"$work/bad.json"
complains 2 '"alfabet" is not known here' design "$work/bad.json"
complains 2 'has "X", which is not of the alphabet' design content --run AXA
complains 2 'takes 1 to 4' design content --run ABCABC
complains 2 'length 9: the spec of "content" has inputs of 1 to 4' \
  design content --length 9
complains 2 '120 inputs up to length 4, and 50 are allowed' \
  design content --max-inputs 50
run 2 design
run 2 design content --all
run 2 design content --steps 5
run 2 design content --argmax --sharpness 2
run 2 design content --out "$work/x.gif"

# ---- learned twins, files ----------------------------------------------------------
run 0 design content --learn --out "$work/c.safetensors"
says '^learned +400 steps .* seed 1: loss .* accuracy 1\.0000$'
says 'They attend alike: over 426 rows'
cp "$work/out" "$work/first"
run 0 design content --learn --threads 1
diff <(grep -v '^learned' "$work/first") <(grep -v '^learned' "$work/out") ||
  fail "another number of threads learns otherwise"
run 0 design "$work/c.safetensors" --run ABCA
says '^ +3 +A +A +A +A +ok$'
run 0 design "$work/c.safetensors" --json
says '"learned_ok": true, "learned_accuracy": 1'
run 0 design sort --learn --steps 500 --seed 3 --rate 0.05 --json
says '"learned_seed": 3, "learned_steps": 500'
run 0 design content --learn --out "$work/c.json"
python3 - "$work/c.json" <<'PYTHON' || fail "the numbers of c.json"
import json, math, sys
d = json.load(open(sys.argv[1]))["designs"][0]
assert d["designed"]["ok"] and d["learned"]["accuracy"] == 1
text, F = "ABCA", len(d["features"])
def part(twin, name):
    p = next(p for p in d["parts"] if p["name"] == name)
    w = twin["weights"][p["at"]:p["at"] + p["rows"] * p["columns"]]
    return [w[i * p["columns"]:(i + 1) * p["columns"]] for i in range(p["rows"])]
for twin, sharp in ((d["designed"], 0), (d["learned"], 1)):
    q, k, v = (part(twin, "layers.0.heads.0." + n) for n in ("query", "key", "value"))
    wo = part(twin, "readout")
    rows = [d["tokens"].index(c) for c in text]
    for i, a in enumerate(rows):
        s = [sum(x * y for x, y in zip(q[a], k[b])) for b in rows]
        e = [math.exp(x - max(s)) if sharp else float(x == max(s)) for x in s]
        w = [x / sum(e) for x in e]
        got = twin["run"]["attention"][0][4 * i:4 * i + 4]
        assert max(abs(x - y) for x, y in zip(w, got)) < 1e-6, (w, got)
        out = [sum(w[j] * v[b][c] for j, b in enumerate(rows)) for c in range(3)]
        logits = [sum(out[c] * wo[3 + c][x] for c in range(3)) for x in range(3)]
        want = twin["run"]["logits"][3 * i:3 * i + 3]
        assert max(abs(x - y) for x, y in zip(logits, want)) < 1e-4, (logits, want)
PYTHON

# ---- pictures and pages --------------------------------------------------------------
[[ $ATTEND_VIEW == ON ]] || exit 0
run 0 design "$work/c.safetensors" --out "$work/c.svg"
for word in Km Qm Vm '>K<' '>Q<' '>V<' attention output designed learned; do
  grep -q "$word" "$work/c.svg" || fail "the picture has no $word"
done
python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$work/c.svg" ||
  fail "the picture is no XML"
grep -q '<title>Km\[A, A\] = 1</title>' "$work/c.svg" || fail "cells say nothing"
run 0 design "$work/c.safetensors" --dark --out "$work/c.png"
[[ $(head -c 4 "$work/c.png" | tail -c 3) == PNG ]] || fail "no PNG"
run 0 design --all --out "$work/all.html"
grep -q 'id="design"' "$work/all.html" || fail "the page has no designs"
run 2 design --all --out "$work/all.svg"
