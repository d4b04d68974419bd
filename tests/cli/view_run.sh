#!/usr/bin/env bash
# Looking at a training run: every saved step by the numbers of its own model, a
# run that still grows, and one clear sentence for what cannot be.
. "$(dirname "$0")/lib.bash"
without_view
[[ $ATTEND_TEXT == ON ]] || exit 0

training=$work/run text="The cat saw the ball."
for i in $(seq 120); do
  echo "The $( ((i % 2)) && echo cat || echo dog) saw the $( ((i % 3)) && echo ball || echo tree)."
done >"$work/words.txt"
run 0 train --data "$work/words.txt" --out "$training" --layers 2 --heads 4 --width 32 \
  --tokenizer "$models/stories260K" --length 32 --positions 256 --batch 4 --steps 40 \
  --save-every 10 --valid-share 0.2
look() { run 0 view --run "$training" "$@"; }

# What is not finished is no step, and a line of the log that has not ended is none.
mkdir "$training/step-00000099.part" "$training/.step-00000098" "$training/step-old"
printf '{"step": 41, "lo' >>"$training/log.jsonl"

# ---- gradients at the heads, by step; those of a step are those of its model ---------------
run 0 study heads --run "$training" --text "$text" --json
cp "$work/out" "$work/gradients.json"
run 0 study heads --model "$training/step-00000020" --text "$text" --json
python3 - "$work/gradients.json" "$work/out" <<'PYTHON' || fail "gradients of a run"
import json, sys
def rows(path):
    return next(b["rows"] for b in json.load(open(path))["blocks"] if b.get("table") == "gradients")
run, model = rows(sys.argv[1]), rows(sys.argv[2])
assert [r["weights"] for r in run] == [f"step {s}" for s in range(0, 41, 10) for _ in range(8)]
def numbers(rows, weights):
    return [[r[k] for k in ("layer", "head", "output", "q", "k", "v", "o")]
            for r in rows if r["weights"] == weights]
assert numbers(run, "step 20") == numbers(model, "trained")
assert numbers(run, "step 0") != numbers(run, "step 40")
PYTHON

# ---- numbers -------------------------------------------------------------------
for step in 0 20 40; do
  look --json --view head --layer 1 --head 2 --step $step "$text"
  cp "$work/out" "$work/step$step.json"
  run 0 view --model "$training/step-000000$(printf %02d $step)" --json --view head \
    --layer 1 --head 2 "$text"
  cp "$work/out" "$work/model$step.json"
done
look --json --view head --layer 1 --head 2 "$text"
cp "$work/out" "$work/last.json"
look --json --step last --against step=0 --layer 1 --head 2 "$text"
cp "$work/out" "$work/against.json"
look --json --view embeddings --step best "$text"
cp "$work/out" "$work/best.json"
python3 - "$work" <<'PYTHON' || fail "the numbers of a run"
import json, sys
def read(name): return json.load(open(f"{sys.argv[1]}/{name}.json"))
heads = {}
for step in (0, 20, 40):
    mine, model = read(f"step{step}"), read(f"model{step}")
    assert mine["run"]["case"]["step"] == step and model["run"]["case"]["step"] == -1
    heads[step] = mine["answers"]["block"]["weights"]
    assert heads[step] == model["answers"]["block"]["weights"], step
    assert "training" not in model
assert heads[0] != heads[20] != heads[40]
assert read("last")["answers"] == read("step40")["answers"]
training = read("last")["training"]
assert training["steps"] == [0, 10, 20, 30, 40] and training["last"] == 40
assert training["best"] in training["steps"] and training["left_out"] == 0
lines = [json.loads(x) for x in open(f"{sys.argv[1]}/run/log.jsonl") if x.endswith("\n")]
assert [p[0] for p in training["valid"]] == [x["step"] for x in lines if "valid" in x]
assert [p[1] for p in training["loss"]] == [x["loss"] for x in lines if "loss" in x]
assert all(low <= mean <= high for _, mean, low, high in training["loss"])
against = read("against")
assert against["other"]["case"]["step"] == 0 and against["state"]["view"] == "compare"
assert max(map(max, against["answers"]["compare"]["distance"])) > 0
assert read("best")["run"]["case"]["step"] == training["best"]
assert "learned" in read("best")["answers"]["positions"]
PYTHON

# ---- files ---------------------------------------------------------------------
look --layer 1 --head 2 --out "$work/film.svg" "$text"
look --layer 1 --head 0,3 --dark --width 600 --out "$work/film.png" "$text"
look --step 20 --out "$work/step.svg" "$text"
look --step 20 --against step=best --out "$work/pair.svg" "$text"
look --out "$work/page.html" "$text"
! grep -q 'steps [0-9]* are in the page' "$work/err" || fail "a small page leaves steps out"
seq -s ' ' 300 | sed 's/[0-9]/the cat /g' | cut -c 1-900 >"$work/long.txt"
look --out "$work/long.html" --step 20 --file "$work/long.txt"
grep -Eq 'of 5 steps [1-4] are in the page' "$work/err" || fail "a large page keeps all steps"
python3 - "$work" <<'PYTHON' || fail "the files of a run"
import json, pathlib, sys, xml.etree.ElementTree as tree
work = pathlib.Path(sys.argv[1])
def texts(name): return [e.text or "" for e in tree.parse(work / name).getroot().iter()]
film = texts("film.svg")
assert [t for t in film if t.startswith("step ")] == [f"step {s}" for s in (0, 10, 20, 30, 40)]
assert any("layer 1, head 2, from step 0 to 40" in t for t in film)
assert any("step 20" in t for t in texts("step.svg"))
assert "step 20" in texts("pair.svg")
def still(name):
    page = (work / name).read_text().split('id="still">')[1].split("</script>")[0]
    return json.loads(page)
small, large = still("page.html"), still("long.html")
assert small["hello"]["training"]["left_out"] == 0
ran = [r["case"]["step"] for r in small["runs"].values() if not r["steps"]]
assert sorted(ran) == [0, 10, 20, 30, 40]
wrote = [r["case"]["step"] for r in small["runs"].values() if r["steps"]]
assert sorted(wrote) == [0, 10, 20, 30, 40]
for id, r in small["runs"].items():
    assert r["steps"] or any(k.startswith("thumbs?") and id in k for k in small["answers"])
kept = large["hello"]["training"]["steps"]
assert 20 in kept and large["hello"]["training"]["left_out"] == 5 - len(kept) > 0
assert sorted({r["case"]["step"] for r in large["runs"].values()}) == kept
assert (work / "long.html").stat().st_size < 60e6
PYTHON

# ---- the terminal ---------------------------------------------------------------
COLUMNS=60 look --terminal --step 0 --layer 1 --head 2 "$text"
[[ $(wc -l <"$work/out") -ge 6 ]] || fail "a head has too few lines"

# ---- what cannot be ---------------------------------------------------------------
complains 1 'is no folder: name one that attend train' view --run "$work/none" --json "$text"
mkdir "$work/empty"
complains 1 'has no saved step' view --run "$work/empty" --json "$text"
complains 1 'is a model, not a run' view --run "$training/last" --json "$text"
complains 1 'no step "7": its 5 steps go from 0 to 40' view --run "$training" --step 7 --json x
complains 1 'no step "soon"' view --run "$training" --against step=soon --json "$text"
run 2 view --model "$training/last" --step 3 --json "$text"
grep -q 'a step is one of a --run' "$work/err" || fail "a step of no run: $(cat "$work/err")"
cp -r "$training" "$work/broken"
head -c 1000 "$training/step-00000020/model.safetensors" \
  >"$work/broken/step-00000020/model.safetensors"
complains 1 'step-00000020' view --run "$work/broken" --step 20 --json "$text"
run 0 view --run "$work/broken" --step 10 --json "$text"
rm "$work/broken/best" "$work/broken/last" "$work/broken/log.jsonl"
complains 1 'does not say which step is the best' view --run "$work/broken" --step best --json x
run 0 view --run "$work/broken" --step last --json "$text"
says '"step": 40'

# ---- a run that grows, and more steps than are open at once ---------------------------
mv "$training/step-00000040" "$work/later"
ln -sfn step-00000030 "$training/last"
serve --run "$training" "$text"
python3 - "$address" "$training" "$work" <<'PYTHON' || fail "the answers about a run"
import json, os, sys, urllib.error, urllib.request
address, run, work = sys.argv[1:]
def ask(name, question):
    page, token = address.split("?token=")
    request = urllib.request.Request(page + "api/" + name, json.dumps(question).encode(),
                                     {"Content-Type": "application/json",
                                      "Authorization": "Bearer " + token})
    return urllib.request.urlopen(request, timeout=60).read()
def ran(case):
    name, data = ask("run", case).decode().strip().split("\n\n")[-1].split("\n", 1)
    return name, json.loads(data.removeprefix("data: "))
hello = json.loads(ask("hello", {}))
case = hello["start"]["case"]
assert hello["training"]["steps"] == [0, 10, 20, 30] and case["step"] == 30
os.rename(work + "/later", run + "/step-00000040")
with open(run + "/log.jsonl", "a") as log: log.write('ss": 1.5}\n')
training = json.loads(ask("training", {}))
assert training["steps"] == [0, 10, 20, 30, 40]
assert training["loss"][-1][:2] == [41, 1.5], "a line that was finished is read"
ids = {}
for step in training["steps"]:
    name, answer = ran({**case, "step": step})
    assert name == "event: done" and answer["case"]["step"] == step, answer
    ids[step] = answer["run"]
assert len(set(ids.values())) == 5
question = {"run": ids[0], "role": "decoder", "layer": 1, "head": 2}
try:
    ask("block", question)
    raise AssertionError("five steps are open at once")
except urllib.error.HTTPError as e:
    assert e.code == 404 and json.load(e)["gone"]
assert ran({**case, "step": 0})[1]["run"] == ids[0] and ask("block", question)
name, answer = ran({**case, "step": 7})
assert name == "event: error" and "no step 7" in answer["error"]
assert ran(case)[0] == "event: done", "the server goes on"
PYTHON
end_server
