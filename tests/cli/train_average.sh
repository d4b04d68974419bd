#!/usr/bin/env bash
# attend train --average: the mean of the last saved steps, to the bit, from a run
# that ends and from one that has ended.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
[[ $ATTEND_TEXT == ON ]] || exit 0
new=(--data "$work/text.txt" --tokenizer "$stories" "${tiny[@]}" --steps 8 \
  --save-every 2 --rate 0.01)

# is_mean RUN STEP...: RUN/average has the mean of the steps, by Python's doubles.
is_mean() {
  python3 - "$work/$1" "${@:2}" <<'END' || fail "$1/average is not the mean of ${*:2}"
import array, json, struct, sys
def read(folder):
    data = open(folder + "/model.safetensors", "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    head.pop("__metadata__", None)
    return {k: array.array("f", data[8 + n + v["data_offsets"][0]:
                                     8 + n + v["data_offsets"][1]])
            for k, v in head.items()}
run, steps = sys.argv[1], sys.argv[2:]
each = [read(f"{run}/step-{int(s):08d}") for s in steps]
mean = read(run + "/average")
assert mean.keys() == each[0].keys()
for name, got in mean.items():
    want = array.array("f", (sum(column) / len(each)
                             for column in zip(*(e[name] for e in each))))
    assert want.tobytes() == got.tobytes(), name
assert any(mean[k] != each[-1][k] for k in mean)
notes = json.load(open(run + "/average/average.json"))
assert notes["steps"] == [int(s) for s in steps]
END
}

learn ended "${new[@]}" --average 3 --json
is_json 1
[[ $(field averaged) == 3 ]] || fail "averaged is $(field averaged)"
valid=$(field average_valid)
is_mean ended 4 6 8
grep -q "\"valid\": $valid" "$work/ended/average/average.json" || fail "its loss"
run 0 generate "$work/ended/average" --prompt "Tom saw" --tokens 3
no_leftovers ended

# One that has ended; another number; fewer than asked for, without step 0.
learn later "${new[@]}" --json
[[ $(field averaged) == null ]] || fail "an average that was not requested"
[[ ! -e $work/later/average ]] || fail "an average/ that was not requested"
learn later --resume --average 2
says '^the mean of 2 steps, 6 to 8: validation [0-9.]+ \(perplexity [0-9.]+\), in '
is_mean later 6 8
learn later --resume --average 3
cmp -s "$work/later/average/model.safetensors" "$work/ended/average/model.safetensors" ||
  fail "it matters when the mean is taken"
learn later --resume --average 9
is_mean later 2 4 6 8
cmp -s "$work/later/last/training.safetensors" "$work/ended/last/training.safetensors" ||
  fail "the mean changed the run"

# The printed loss is that of the saved average.
cp -r "$work/ended/average" "$work/mean"
learn again "$work/mean" --data "$work/text.txt" --length 16 --batch 2 --steps 0 --json
[[ $(field valid) == "$valid" ]] || fail "the mean has a loss of $(field valid)"

# What is needed for it is kept; matrices that are stored turned, rounded steps.
learn thin "${new[@]}" --keep 1 --average 3 --save-as bf16
says '^the mean of 3 steps, 4 to 8'

complains 2 'an average needs two, so save more often' train "${new[@]}" --steps 2 --average 2 \
  --out "$work/short"
learn short "${new[@]}" --steps 2
run 1 train --resume --average 2 --out "$work/short"
grep -q 'has 1 saved step to take the mean of' "$work/err" || fail "a mean of one"
run 2 train "${new[@]}" --average 1 --out "$work/new"
