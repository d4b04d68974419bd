#!/usr/bin/env bash
# Looking at models: pages, pictures and numbers that agree with each other and
# with attend compare; one clear sentence for what cannot be; a server that ends
# on a signal.
. "$(dirname "$0")/lib.bash"

gpt=$models/gpt2 bert=$models/bert bart=$models/bart
ids="5 17 40 96 51 17 40"
look() { run 0 view --model "$@"; }

# ---- the terminal, which every build draws in ------------------------------------
COLUMNS=60 look "$gpt" --terminal "$ids"
! grep -q $'\033' "$work/out" || fail "colour in a pipe"
says 'first|broad|previous|positional'
COLUMNS=60 look "$gpt" --terminal --layer 1 --head 2 "$ids"
[[ $(wc -l <"$work/out") -ge 8 ]] || fail "a head of seven tokens has fewer lines"

# Every view has a drawing of its own.
look "$gpt" --terminal --view head --layer 1 --head 0,2 "$ids"
[[ $(grep -c '^head [02]$' "$work/out") == 2 ]] || fail "two heads in the terminal"
look "$gpt" --terminal --view neuron --token 3 "$ids"
says 'q·k +score +weight'
[[ $(grep -c ' 0\.[0-9]\{3\}  ' "$work/out") == 4 ]] || fail "four keys of token 3"
look "$gpt" --terminal --view flow "$ids"
says 'before layer 2'
look "$gpt" --terminal --view embeddings "$ids"
says ' 1\.00 '
look "$gpt" --terminal --view generate --new 3 "$ids"
says '^ +3 +.* 0\.[0-9]{3} '
look "$gpt" --terminal --form elu --view compare "$ids"
complains 2 '--against layer=7: the decoder has layers 0 to 2' \
  view --model "$gpt" --terminal --against layer=7 "$ids"

without_view # the rest needs pictures

# ---- weights that are NaN: one sentence, whatever is asked for -----------------
mkdir "$work/nan" "$work/pictures"
cp "$gpt/config.json" "$gpt/model.safetensors" "$work/nan"
without_numbers "$work/nan"
for kind in html svg png json safetensors; do
  complains 1 'values that are not finite' view --model "$work/nan" \
    --out "$work/pictures/still.$kind" "$ids"
  [[ ! -e $work/pictures/still.$kind ]] || fail "a .$kind of no numbers is written"
done
for view in model head neuron matrix flow embeddings generate; do
  complains 1 'not finite' view --model "$work/nan" --json --view $view "$ids"
  complains 1 'not finite' view --model "$work/nan" --terminal --view $view "$ids"
done
complains 1 'not finite' view --model "$work/nan" --json --view compare --form elu "$ids"

# ---- numbers -------------------------------------------------------------------
look "$gpt" --json --view head --layer 1 --head 2 "$ids"
cp "$work/out" "$work/head.json"
look "$gpt" --json --view neuron --layer 1 --head 2 --token 6 "$ids"
cp "$work/out" "$work/neuron.json"
look "$gpt" --json "$ids"
cp "$work/out" "$work/model.json"
look "$gpt" --json --view compare --form elu "$ids"
cp "$work/out" "$work/compare.json"
look "$gpt" --json --view flow "$ids"
cp "$work/out" "$work/flow.json"
look "$bart" --json --role cross --view head --layer 0 --head 1 "$ids" "9 8 7"
cp "$work/out" "$work/cross.json"
look "$bert" --json --pad 12 --view head "$ids"
cp "$work/out" "$work/padded.json"
run 0 compare "$gpt" --ids "$ids" --form softmax --form elu --heads --json
cp "$work/out" "$work/forms.json"
python3 - "$work" <<'PYTHON' || fail "the numbers of attend view"
import json, math, sys
def read(name): return json.load(open(f"{sys.argv[1]}/{name}.json"))
def near(a, b, bound=2e-6): assert abs(a - b) <= bound, (a, b)

head = read("head")["answers"]["block"]["weights"]
assert len(head) == 7 and all(len(row) == 7 for row in head)
for i, row in enumerate(head):
    near(sum(row), 1)
    assert all(w == 0 for w in row[i + 1:]), "a causal head looks ahead"

# q.k scaled, less the denominator, is the weight; weights times values the output.
run = read("neuron")
v, scale = run["answers"]["vectors"], run["answers"]["vectors"]["scale"]
for key, weight in enumerate(v["weights"][0]):
    dot = sum(a * b for a, b in zip(v["q"][0], v["k"][key]))
    near(math.exp(scale * dot - v["lse"][0]), weight)
    near(weight, head[6][key], 0)
for i, out in enumerate(v["out"][0]):
    near(sum(w * x[i] for w, x in zip(v["weights"][0], v["v"])), out, 1e-5)

model = read("model")["answers"]
cells = model["thumbs"]["cells"][1][2]
most = model["thumbs"]["most"][1][2]
near(most, max(map(max, head)), 0)
for i in range(7):
    for j in range(7):
        near(cells[i][j], round(255 * head[i][j] / most), 1)
assert len(model["patterns"]["names"]) == 9

# The same question by another way through the program.
direct = [f for f in read("forms") if f["form"] == "elu"][0]["direct_heads"]
for ours, theirs in zip(read("compare")["answers"]["compare"]["distance"], direct):
    for a, b in zip(ours, theirs): near(a, b, 1e-5)

for layer in read("flow")["answers"]["flow"]["layers"]:
    near(sum(share for _, share in layer), 1, 1e-5)

cross = read("cross")["answers"]["block"]["weights"]
for row in cross: near(sum(row), 1)

padded = read("padded")
assert padded["run"]["roles"][0]["real_keys"] == padded["run"]["sides"]["encoder"]["real"] < 12
for row in padded["answers"]["block"]["weights"]:
    real = padded["run"]["roles"][0]["real_keys"]
    near(sum(row[:real]), 1)
    assert all(w == 0 for w in row[real:]), "padding is looked at"
PYTHON

# ---- files ---------------------------------------------------------------------
for view in model head neuron matrix flow compare generate embeddings; do
  look "$gpt" --view "$view" --layer 1 --head 2 --out "$work/$view.svg" "$ids"
  look "$gpt" --view "$view" --out "$work/$view.png" --dark --width 700 "$ids"
  cmp -s -n 8 "$work/$view.png" <(printf '\x89PNG\r\n\x1a\n') ||
    fail "$view.png is no PNG"
done
look "$gpt" --view head --head 0,1,3 --out "$work/heads.svg" "$ids"
look "$bert" --against untrained --out "$work/untrained.svg" "$ids"
# The space before a word is a dot, whatever the tokenizer writes for it.
if [[ $ATTEND_TEXT == ON ]]; then
  look models/gutenberg --view head --out "$work/words.svg" $'It was\nthe day'
  for name in '·was' '↵'; do
    grep -q ">$name<" "$work/words.svg" || fail "no token is drawn as $name"
  done
  grep -q 'Ġ\|Ċ' "$work/words.svg" && fail "tokens are drawn as they are stored"
fi
look "$gpt" --out "$work/page.html" "$ids"
look "$gpt" --out "$work/run.json" "$ids"
look "$gpt" --out "$work/run.safetensors" "$ids"
python3 - "$work" <<'PYTHON' || fail "the files of attend view"
import json, pathlib, re, struct, sys, xml.etree.ElementTree as tree
work = pathlib.Path(sys.argv[1])
for path in work.glob("*.svg"):
    root = tree.parse(path).getroot()
    assert root.tag.endswith("svg") and not root.findall(".//{*}script"), path
page = (work / "page.html").read_text()
assert not re.search(r'(src|href)="(?!data:)', page.split('id="still"')[0])
still = page.split('id="still">')[1].split("</script>")[0]
answers = json.loads(still)["answers"]
assert len(answers) > 50 and "://" not in page.split("<style>")[0]
def numbers(name):
    whole = json.loads((work / name).read_text())
    del whole["run"]["seconds"]
    return whole
assert numbers("run.json") == numbers("model.json")
raw = (work / "run.safetensors").read_bytes()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
assert head["decoder.1.query"]["dtype"] == "F32"
notes = head.pop("__metadata__")
assert notes["format"] == "pt" and json.loads(notes["tokens"])[:2] == ["5", "17"]
assert json.loads(notes["attend"])["roles"]["decoder"]["causal"]
assert max(t["data_offsets"][1] for t in head.values()) == len(raw) - 8 - n
PYTHON

# ---- a difference is the first minus the second -----------------------------------------
for other in '--against attention=elu' '--against untrained'; do
  # shellcheck disable=SC2086
  look "$gpt" $other --layer 1 --head 2 --json "$ids"
  cp "$work/out" "$work/pair.json"
  # shellcheck disable=SC2086
  look "$gpt" --view head --layer 1 --head 2 --json "$ids"
  python3 - "$work/pair.json" "$work/out" <<'PYTHON' || fail "another sign in --json ($other)"
import json, sys
pair, own = (json.load(open(path))["answers"] for path in sys.argv[1:])
first, difference = pair["block"]["weights"], pair["difference"]["weights"]
assert first == own["block"]["weights"]
second = [[a - d for a, d in zip(*rows)] for rows in zip(first, difference)]
assert all(abs(sum(row) - 1) < 1e-4 for row in second)  # weights of a row
assert any(abs(d) > 1e-3 for row in difference for d in row)
PYTHON
done
COLUMNS=100 look "$gpt" --view compare --against attention=elu --terminal "$ids"
says '^first − second'
says 'first minus second'

# ---- what cannot be ---------------------------------------------------------------
complains 2 '--layer=9: the decoder has layers 0 to 2' view --model "$gpt" --json --layer 9 "$ids"
complains 1 'has no attention of the role' view --model "$gpt" --json --role cross "$ids"
complains 2 'ends in .html, .svg' view --model "$gpt" --out "$work/x.bmp" "$ids"
complains 1 'cannot be written' view --model "$gpt" --out "$work/no/x.svg" "$ids"
complains 1 'knows 0 to' view --model "$gpt" --json "5 99999"
complains 1 'no tokens: write something' view --model "$gpt" --json " "
seq -s ' ' 1 60 | sed 's/.*/& & & & & & & &/' >"$work/long"
complains 1 'takes [0-9]+ MB, and 1 are allowed' view --model "$models/llama-gqa" \
  --memory 1 --json --file "$work/long"
look "$gpt" --view head --json --file "$work/long"
says '"notice": "The text was cut at 64 tokens; 416 were left out\."'

# ---- two models; two texts ------------------------------------------------------------
look "$gpt" --against text="1 2" --out "$work/x.svg" "$ids"
grep -q 'No distance of heads: the texts have other numbers of tokens' "$work/x.svg" ||
  fail "texts of different lengths side by side"
look "$gpt" --model "$bert" --json --layer 1 --head 2 "$ids"
cp "$work/out" "$work/beside.json"
look "$gpt" --model "$bert" --out "$work/beside.svg" "$ids"
grep -q 'visible pairs (query, key)' "$work/beside.svg" || fail "two models in a picture"
look "$gpt" --model "$bert" --terminal "$ids"
says 'visible pairs .* 57\.1 % +100\.0 %'
look "$bert" --json --view embeddings --against text="5 17 41 96" "$ids"
cp "$work/out" "$work/between.json"
look "$bert" --json --view neuron --token 2 --against text="5 17 41 96" --against token=3 "$ids"
cp "$work/out" "$work/pair.json"
look "$bert" --view neuron --against text="5 17 41 96" --terminal "$ids"
says 'after layer .* [01]\.'
for view in neuron embeddings; do
  look "$bert" --view $view --against text="5 17 41 96" --out "$work/$view.svg" "$ids"
  grep -q 'cosine of the hidden states' "$work/$view.svg" || fail "two texts in $view"
done
look "$gpt" --model "$bert" --view neuron --against model=1 --terminal "$ids"
says 'No cosines: vectors of two models'
python3 - "$work" <<'PYTHON' || fail "the numbers of two models and of two texts"
import json, sys
def read(name): return json.load(open(f"{sys.argv[1]}/{name}.json"))["answers"]
def near(a, b, bound=2e-6): assert abs(a - b) <= bound, (a, b)

# Ids are words: both models have the same, and weights of words are those of tokens.
beside = read("beside")
words, block = beside["words"], beside["block"]["weights"]
assert words["words"] == beside["other_words"]["words"] == "5 17 40 96 51 17 40".split()
for row, own in zip(words["weights"], block):
    assert row[0] == 0
    for x, y in zip(row[1:], own): near(x, y)
for row in beside["other_words"]["weights"]: near(sum(row), 1)
first, second = beside["beside"]["first"], beside["beside"]["second"]
near(first["visible"], 4 / 7), near(second["visible"], 1)
near(first["later"][-1], 0)
for side in first, second:
    heads = side["layers"] * side["heads"]
    assert sum(side["counts"][-1]) == heads
    for k in range(len(side["counts"][0])):
        assert sum(row[k] for row in side["counts"][:-1]) == side["counts"][-1][k]
assert "no decoder" in beside["compare"]["why"]

# The cosines of a word are those of the matrix between the texts.
between, layer = read("between"), 0
word = between["word"]
assert word["same"] and word["why"] == ""
near(between["between"]["cosine"][word["word"][0]][word["other"][0]], word["cosine"][layer])
assert len(between["between"]["cosine"][0]) == 4
pair = read("pair")
assert pair["word"]["word"] == [2, 1] and pair["word"]["other"] == [3, 1]
assert not pair["word"]["same"]
assert len(pair["vectors"]["k"]) == 7 and len(pair["other_vectors"]["k"]) == 4
PYTHON
complains 1 'it is a number from 0' view --model "$gpt" --against layer=x "$ids"
complains 2 '--against layer=9: the encoder has layers 0 to 2' view --model "$gpt" --model "$bert" --json --against model=1 \
  --against layer=9 "$ids"
complains 2 'allow it with --allow-remote' view --model "$gpt" --bind 0.0.0.0 "$ids"
complains 1 'the gallery needs models' view --gallery

# ---- changes and what a prediction comes from --------------------------------------
look "$gpt" --json --view intervene --sweep "$ids"
cp "$work/out" "$work/sweep.json"
look "$gpt" --json --view intervene --changes "ablate 1.2" "$ids"
cp "$work/out" "$work/ablated.json"
look "$gpt" --json --view intervene --changes "patch residual:in" --from "1 2 3 4 5 6 7" "$ids"
cp "$work/out" "$work/patched.json"
look "$gpt" --json --view intervene "1 2 3 4 5 6 7"
cp "$work/out" "$work/other.json"
for method in gradient integrated attention direct lens; do
  look "$gpt" --json --view attribute --method $method "$ids"
  cp "$work/out" "$work/$method.json"
done
python3 - "$work" <<'PYTHON' || fail "the numbers of changes and attributions"
import json, sys
def read(name): return json.load(open(f"{sys.argv[1]}/{name}.json"))["answers"]
def near(a, b, bound=1e-4): assert abs(a - b) <= bound * max(1, abs(b)), (a, b)

sweep, ablated = read("sweep"), read("ablated")["effect"]
near(sweep["sweep"]["map"][1][2], ablated["value"])
near(sweep["sweep"]["before"], ablated["before"])
assert sweep["effect"]["value"] == sweep["effect"]["before"] == ablated["before"]
patched, other = read("patched")["effect"], read("other")["effect"]
given = {t["id"]: t["p"] for t in patched["tokens"]}
assert all(given[t["id"]] == t["p"] for t in other["tokens"] if t["id"] in given)
logit = ablated["before"]
for method in ("gradient", "integrated", "attention", "direct"):
    near(read(method)["attribute"]["logit"], logit)
whole = read("integrated")["attribute"]
near(whole["sum"], whole["logit"] - whole["baseline"], 0.011)
direct = read("direct")["attribute"]
near(direct["sum"], direct["logit"])
last = read("lens")["lens"]["cells"][-1][-1][0]
assert last["id"] == ablated["target"]["token"], last
PYTHON
look "$gpt" --terminal --view intervene --changes "ablate 1.2" --sweep "$ids"
grep -q 'loss of the text' "$work/out" || fail "the terminal has no loss"
look "$gpt" --terminal --view attribute --method lens "$ids"
for kind in svg png; do
  look "$gpt" --view intervene --sweep --out "$work/intervene.$kind" "$ids"
  look "$gpt" --view attribute --method direct --out "$work/attribute.$kind" "$ids"
done
complains 1 'not a change' view --model "$gpt" --json --changes "remove 1.2" "$ids"
complains 1 'layer 9' view --model "$gpt" --json --changes "ablate 9.0" "$ids"
complains 1 'another text' view --model "$gpt" --json --changes "patch 0.1" "$ids"
complains 1 'token 99' view --model "$gpt" --json --view intervene --token 99 "$ids"

# ---- the server ---------------------------------------------------------------------
# One question to the server, by its token.
cat >"$work/asking.py" <<'PYTHON'
import json, sys, urllib.request
def ask(name, question):
    page, token = sys.argv[1].split("?token=")
    request = urllib.request.Request(page + "api/" + name, json.dumps(question).encode(),
                                     {"Content-Type": "application/json",
                                      "Authorization": "Bearer " + token})
    return urllib.request.urlopen(request, timeout=60).read()
PYTHON
export PYTHONPATH=$work PYTHONDONTWRITEBYTECODE=1
serve --model "$work/nan" "$ids"
python3 - "$address" <<'PYTHON' || fail "weights that are NaN are not reported"
import json
from asking import ask
case = json.loads(ask("hello", {}))["start"]["case"]
last = ask("run", case).decode().strip().split("\n\n")[-1]
assert last.startswith("event: error") and "not finite" in last, last
PYTHON
end_server
serve --model "$gpt" "$ids"
python3 - "$address" "$work" <<'PYTHON' || fail "the answers of the server"
import json, struct, sys
from asking import ask
hello = json.loads(ask("hello", {}))
events = ask("run", hello["start"]["case"]).decode().strip().split("\n\n")
name, data = events[-1].split("\n", 1)
assert name == "event: done", events[-1]
run = json.loads(data.removeprefix("data: "))
answer = ask("block", {"run": run["run"], "role": "decoder", "layer": 1, "head": 2})
n = struct.unpack("<I", answer[:4])[0]
weights = struct.unpack("<49f", answer[4 + n:4 + n + 196])
head = json.load(open(sys.argv[2] + "/head.json"))["answers"]["block"]["weights"]
assert all(abs(a - b) < 1e-7 for a, b in zip(weights, sum(head, [])))
PYTHON
python3 - "$address" <<'PYTHON' || fail "members of predictions out of bounds"
import json, sys, urllib.error
from asking import ask
case = json.loads(ask("hello", {}))["start"]["case"]
done = ask("run", case).decode().strip().split("\n\n")[-1]
run = json.loads(done.split("data: ", 1)[1])["run"]
place = {"run": run, "role": "decoder"}
bad = [("effect", {"run": run, "top": 65}), ("effect", {"run": run, "predicted": 7}),
       ("effect", {"run": run, "target": 1 << 30}), ("effect", {"run": run, "against": -2}),
       ("effect", {"run": run, "before": "0"}), ("effect", {"run": 3}),
       ("sweep", {**place, "axis": "layers"}), ("sweep", {**place, "metric": "joy"}),
       ("sweep", {**place, "point": "mlp"}), ("sweep", {**place, "change": "patch"}),
       ("sweep", {**place, "from": 5}), ("sweep", {"run": run, "role": "cross"}),
       ("attribute", {**place, "method": "lens"}), ("attribute", {**place, "layer": 99}),
       ("attribute", {**place, "method": "attention", "head": 99}),
       ("lens", {"run": run, "row": 8}), ("lens", {"run": run, "rows": 99}),
       ("lens", {"run": run, "top": 0}), ("run", {**case, "changes": 7}),
       ("run", {**case, "changes": "ablate " + ",".join(["0.0"] * 65)}),
       ("run", {**case, "changes": "ablate " + "9" * 99})]
for name, question in bad:
    try:
        answer = ask(name, question).decode()
    except urllib.error.HTTPError as e:
        assert e.code in (400, 404), (name, question, e.code)
        answer = "event: error\n" + e.read().decode()
    assert "event: error" in answer and '"error": "' in answer, (name, question, answer[:200])
PYTHON
end_server
