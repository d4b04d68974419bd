#!/usr/bin/env bash
# attend compare --runs: what the folders of trainings say, as table, JSON and picture;
# seeds as one; runs that are no runs.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
[[ $ATTEND_TEXT == ON ]] || exit 0
new=(--data "$work/pairs.tsv" --tokenizer "$stories" "${tiny[@]}" --family bart
  --steps 4 --save-every 2 --log-every 1)

for seed in 1 2; do
  learn soft-s$seed "${new[@]}" --seed $seed
done
says '^4 steps, .* [0-9.]+ [KM]iB of memory: '
learn favor "${new[@]}" --attention 'favor(m=16)' --attention-roles encoder,cross \
  --decoder-width 32 --valid-share 0 --json
held=$(field bytes)

cat >"$work/favor/rouge.json" <<'END'
{"rouge1": 0.4, "rouge2": 0.2, "rougeL": 0.3,
 "scores": {"rouge1": {"f1": {"mean": 0.4, "low": 0.35, "high": 0.45}}}}
END
runs=("$work/soft-s1" "$work/soft-s2/" "$work/favor")
run 0 compare --runs "${runs[@]}" --curve "$work/curve.svg" --json
is_json 3
fields run form roles parameters steps valid best_step last step_s \
  tokens_per_s seconds bytes rouge1 rouge1_low rougeL_high
python3 - "$work" "$held" <<'END' || fail "the numbers are not the logs'"
import json, statistics, sys, xml.etree.ElementTree as tree
work, held = sys.argv[1:]
a, b, favor = json.load(open(work + "/out"))
assert [a["run"], b["run"], favor["run"]] == ["soft-s1", "soft-s2", "favor"]
assert (a["form"], a["roles"]) == ("softmax", "all")
assert (favor["form"], favor["roles"]) == ("favor(m=16)", "encoder,cross")
assert (favor["encoder_width"], favor["decoder_width"]) == (16, 32)
assert favor["parameters"] > a["parameters"] == b["parameters"] > 0
assert favor["bytes"] == float(held) > 16 * favor["parameters"]
assert favor["valid"] is None and favor["best_step"] is None
assert (favor["rouge1"], favor["rouge1_low"], favor["rougeL_low"]) == (0.4, 0.35, 0.3)
for r in (a, b):
    lines = [json.loads(l) for l in open("%s/%s/log.jsonl" % (work, r["run"]))]
    best = min((l["valid"], l["step"]) for l in lines if "valid" in l)
    assert (r["valid"], r["best_step"]) == best and r["steps"] == 4
    assert r["last"] == [l["valid"] for l in lines if "valid" in l][-1]
    took = [l["step_s"] for l in lines if "loss" in l]
    assert len(took) == 4 and abs(sum(took) - r["seconds"]) < 1e-9
    assert abs(statistics.median(took) - r["step_s"]) < 1e-9
    assert r["rouge1"] is None
text = tree.parse(work + "/curve.svg")
words = [e.text for e in text.iter() if e.text]
assert all(any(name in w for w in words) for name in ("soft-s1", "favor"))
END
run 0 compare --runs "${runs[@]}"
says '^favor +favor\(m=16\) +encoder,cross '
says '^favor +0\.4000 \(0\.3500 \.\. 0\.4500\) +0\.2000 '

# ---- seeds as one, and logs of older programs -----------------------------------------
run 0 compare --runs --seeds "${runs[@]}" --json --curve "$work/bands.svg"
is_json 2
python3 - "$work" <<'END' || fail "the mean of two seeds"
import json, sys
work = sys.argv[1]
soft = json.load(open(work + "/out"))[0]
best = [min(json.loads(l).get("valid", 99) for l in open("%s/soft-s%d/log.jsonl" % (work, i)))
        for i in (1, 2)]
assert soft["run"] == "soft" and soft["seeds"] == 2
assert abs(soft["valid"] - sum(best) / 2) < 1e-9
assert (soft["valid_low"], soft["valid_high"]) == (min(best), max(best))
END
grep -q 'class="band' "$work/bands.svg" || fail "no band"
cp -r "$work/soft-s1" "$work/old"
printf '{"step": %d, "loss": 5, "seconds": %d}\n' 1 1 2 2 3 102 4 103 \
  >"$work/old/log.jsonl"
run 0 compare --runs "$work/old" --json
[[ $(field step_s) == 1 ]] || fail "pauses of an old log count"
[[ $(field bytes) == null ]] || fail "bytes that were not logged"

rm -r "$work"/old/step-* "$work/old/last" # a log is enough
run 0 compare --runs "$work/old" --json
[[ $(field form) == '"softmax"' && $(field parameters) == null ]] || fail "a log alone"

complains 1 'is no folder' compare --runs "$work/soft-s1" "$work/none"
complains 1 'is a model, not a run' compare --runs "$work/soft-s1/last"
run 2 compare --runs
grep -q 'name the folders' "$work/err" || fail "no folders"
echo nothing >"$work/favor/rouge.json"
complains 1 'rouge.json' compare --runs "$work/favor"

# ---- the recipe that compares forms -----------------------------------------------------
forms() {
  STEPS=2 SEEDS=1 SETTINGS="softmax swapped-elu" WIDTH=32 VOCAB=300 LIMIT=2 THREADS=1 \
    ATTEND=$ATTEND models/summarizer/forms "$work/forms" >"$work/out" 2>"$work/err" ||
    fail "forms: $(cat "$work/err")"
}
mkdir -p "$work/forms/data"
for part in train valid test; do head -4 "$work/pairs.jsonl" >"$work/forms/data/$part.jsonl"; done
forms
says '^\| swapped-elu \| elu \| encoder,cross \|  \| 32 \+ 32 \| [0-9]+ \| [0-9.]+ \|'
first=$(stat -c %Y%s "$work"/forms/forms/*/log.jsonl)
forms
[[ $first == $(stat -c %Y%s "$work"/forms/forms/*/log.jsonl) ]] || fail "learnt again"
