#!/usr/bin/env bash
# attend study: the list, one topic in every output, settings, and what is refused.
. "$(dirname "$0")/lib.bash"

run 0 study
says '^scale +Why scores are divided'
run 0 study --json
python3 - "$work/out" <<'END' || fail "the list is not what it should be"
import json, sys
rows = json.load(open(sys.argv[1]))
assert rows[0]["topic"] == "scale" and all(r["answers"] and r["question"] for r in rows)
END

run 0 study scale --quick --d 4,16 --seed 5 --claims
says 'Var\(q·k\) at d = 16, μ = 0, σ = 1 +16 '
says '8 of 8 predictions hold'
cp "$work/out" "$work/first"
run 0 study --seed 5 --claims --d 4,16 scale --quick --threads 1
cmp "$work/first" "$work/out" || fail "other numbers from the same seed"
run 0 study scale --quick --d 4,16 --seed 6 --claims
cmp -s "$work/first" "$work/out" && fail "the same numbers from another seed"

run 0 study scale --help
says '\-\-d=N,\.\. +Widths of q and k'

# A folder: a page with the plots inside, the plots, the numbers.
run 0 study scale --quick --out "$work/book"
for file in index.html study.json scale-variance.svg scale-softmax.svg; do
  [[ -s $work/book/$file ]] || fail "there is no $file"
done
[[ $(grep -c '<figure><svg ' "$work/book/index.html") == 2 ]] || fail "the plots are not in the page"
grep -Eq '<(script|link|img)|https?://[^w]' "$work/book/index.html" &&
  fail "the page needs something beside it"
python3 - "$work/book" <<'END' || fail "study.json or a plot is broken"
import json, sys
import xml.dom.minidom
s = json.load(open(sys.argv[1] + "/study.json"))
assert s["study"] == "scale" and all(c["holds"] for c in s["claims"]), s["claims"]
kinds = [k for b in s["blocks"] for k in ("text", "table", "figure") if k in b]
assert set(kinds) == {"text", "table", "figure"}
for name in ("scale-variance", "scale-softmax"):
    xml.dom.minidom.parse(f"{sys.argv[1]}/{name}.svg")
END
run 0 study scale --quick --out "$work/one.svg" --figure scale-variance
cmp "$work/one.svg" "$work/book/scale-variance.svg" || fail "another plot"
run 0 study scale --quick --out "$work/one.json"
run 0 study scale --quick --out "$work/one.html"

# Quick sizes draw no curve of one or two values; one size has a table alone.
run 0 study all --quick --out "$work/quick"
python3 - "$work/quick" <<'END' || fail "a curve of few values under --quick"
import glob, re, sys
for path in glob.glob(sys.argv[1] + "/*.svg"):
    for at in re.findall(r'<path class="line c\d+" d="(M[^"h]*(?:h0)?)"', open(path).read()):
        assert len(re.findall("[ML]", at)) >= 3, (path, at)
END
run 0 study scale --quick --d 4 --out "$work/single"
[[ ! -e $work/single/scale-variance.svg ]] || fail "a plot of one point"

# Formulas: MathML, on the page too.
printf '%s\n' 'σ² = Σ_i (xᵢ − μ)² / √d' 'a / b + [c/d)' 'V′ᵢ' | "$ATTEND" study --formulas >"$work/formulas"
python3 - "$work/formulas" "$work/book/index.html" <<'END' || fail "formulas"
import re, sys
from xml.dom.minidom import parseString
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
tree = [parseString(line) for line in lines]
assert len(lines) == 3
first = re.sub(r' [a-z]+="[^"]*"', "", lines[0])
assert "<msup><mi>σ</mi><mrow><mn>2</mn></mrow></msup><mo>=</mo><mfrac><mrow>" in first, first
assert "<munder><mo>∑</mo><mrow><mi>i</mi></mrow></munder>" in first, first
assert "</mrow><mrow><msqrt><mi>d</mi></msqrt></mrow></mfrac>" in first, first
third = re.sub(r' [a-z]+="[^"]*"', "", lines[2])
assert "<msubsup><mi>V</mi><mrow><mi>i</mi></mrow><mrow><mo>′</mo></mrow></msubsup>" in third, third
assert len(tree[1].getElementsByTagName("mfrac")) == 1, lines[1]
page = open(sys.argv[2], encoding="utf-8").read()
assert page.count("<math") >= 2 and "$" not in re.sub(r"<style>.*?</style>", "", page, flags=re.S)
END
complains 2 'one of scale-variance, scale-softmax' study scale --quick --out "$work/x.svg"
run 2 study nothing
grep -q 'no study "nothing"' "$work/err" || fail "an unknown topic is not named"
complains 2 'd takes whole numbers from 1 to 65536' study scale --d 4,x
complains 1 'cannot be' study scale --quick --out /proc/none/page.html
run 2 study scale --degrees 4
run 2 study all --out "$work/all.svg"
run 2 study --claims

# Own numbers: every step, and widths that must agree.
run 0 study argmax --q 1,1,2 --keys "1,2,0;0,3,4" --values "1,2;3,4"
says '^\(0, 3, 4\)  \(3, 4\)  1·0 \+ 1·3 \+ 2·4 +11 +1 +1$'
says 'the output is value 2 as it stands: \(3, 4\)'
run 0 study softmax --q -1,2 --keys "0.5,1; 1,0.5" --values "1;0" --scale 1 --json
python3 - "$work/out" <<'END' || fail "softmax of own numbers"
import json, math, sys
s = json.load(open(sys.argv[1]))
rows = next(b["rows"] for b in s["blocks"] if b.get("table") == "softmax-weights")
assert [r["score"] for r in rows] == [1.5, 0], rows
assert abs(rows[0]["library"] - 1 / (1 + math.exp(-1.5))) < 1e-6, rows
END
run 0 study kernels --q 1,2 --keys 3,4 --values 5
says '^\(3, 4\)  \(5\) +1·3 \+ 2·4 +11 +144 +1 +1$'
says '^√2 x1 x2 +2\.828 +\(16\.9706\) '
run 0 study approximation --q 1,2 --keys 3,4 --values 5
says '\(1 − 3\)² \+ \(2 − 4\)² +8 '
complains 2 'q has 2 numbers and each key 3 numbers: give' study argmax --q 1,2
complains 2 'a row of keys has 1 number and the first has 2' study softmax --keys "1,2;3"
complains 2 'there are 4 keys and 1 values' study kernels --values 1

# Models beside each other, named by words: counts of both.
run 0 study heads "$models/gpt2" "$models/bert" --length 16
says '^ +0  gpt2 +0 '
says 'gpt2 0\.00 \(causal\), bert 0\.[0-9]+ \(bidirectional\)'
run 2 study scale "$models/gpt2"
complains 1 'nowhere' study heads "$models/gpt2" "$work/nowhere"

[[ $ATTEND_TEXT == ON ]] || exit 0
# A page says how to run it again: quoted, and what ships by its name.
export ATTEND_MODELS=$PWD/models
run 0 study heads --quick --text "It's a dog and a car ran home" --out "$work/heads.html"
grep -qF "study heads --text 'It'\\''s a dog and a car ran home' --length 48 --seed 0<" "$work/heads.html" ||
  fail "the command of the page"
