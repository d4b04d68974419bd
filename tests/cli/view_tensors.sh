#!/usr/bin/env bash
# Tensors in place of a model: what NumPy and PyTorch save is shown as it is, a run of a model that
# was saved gives the same pictures, and what is no attention is one clear sentence.
. "$(dirname "$0")/lib.bash"
without_view

arrays=${models%/models}/arrays
look() { run 0 view --tensors "$@"; }

# ---- numbers -------------------------------------------------------------------------------
look "$arrays/qkv.npz" --tokens "The dog ran , it stopped" --json --view head --layer 1 --head 3
cp "$work/out" "$work/head.json"
look "$arrays/qkv.npz" --json --view neuron --layer 1 --head 3 --token 4
cp "$work/out" "$work/neuron.json"
look "$arrays/weights.npz" --json --view head --layer 1 --head 2
cp "$work/out" "$work/weights.json"
look "$arrays/cross.npz" --json --view matrix --layer 1 --tokens "a b c d e f" \
  --key-tokens '["t","u","v","w","x","y","z","."," !"]'
cp "$work/out" "$work/cross.json"
look "$arrays/weights.npz" --tensors "$arrays/lower.npy" --view compare --json
cp "$work/out" "$work/compare.json"
look "$arrays/weights.npz" --tensors "$arrays/cross.npz" --json
cp "$work/out" "$work/beside.json"
look "$arrays/weights.npz" --view flow --json
cp "$work/out" "$work/flow.json"
python3 - "$work" "$arrays" <<'PYTHON' || fail "the numbers of tensors"
import json, sys
work, arrays = sys.argv[1:]
def read(name): return json.load(open(f"{work}/{name}.json"))
def near(a, b, bound=2e-6): assert abs(a - b) <= bound, (a, b)

# Queries, keys and values under a mask: what NumPy computes from them.
golden = json.load(open(f"{arrays}/qkv.json"))
head = read("head")
for ours, theirs in zip(head["answers"]["block"]["weights"], golden["weights"][1][3], strict=True):
    for a, b in zip(ours, theirs, strict=True): near(a, b)
out = read("neuron")["answers"]["vectors"]["out"][0]
for a, b in zip(out, golden["out"][1][3][4], strict=True): near(a, b, 1e-5)
assert head["run"]["sides"]["encoder"]["labels"] == ["The", "dog", "ran", ",", "it", "stopped"]
assert head["run"]["model"]["tensors"] and "generate" in head["run"]["model"]["without"]
assert head["run"]["roles"][0]["kv_heads"] == 2

# Weights of half precision, with tokens as strings.
run = read("weights")["run"]
assert run["sides"]["encoder"]["tokens"] == ["[CLS]", "the", "dog", "##s", "ran", "[SEP]"]
assert run["sides"]["encoder"]["special"] == [0, 5] and not run["notice"]
assert {"neuron", "generate", "embeddings", "intervene", "attribute"} <= set(run["model"]["without"])
for row in read("weights")["answers"]["block"]["weights"]: near(sum(row), 1, 2e-3)

cross = read("cross")
role = cross["run"]["roles"][0]
assert (role["role"], role["rows"], role["keys"], role["layers"]) == ("cross", 6, 9, 2)
assert cross["run"]["sides"]["encoder"]["labels"][-1] == "·!"
assert "flow" in cross["run"]["model"]["without"]

both = read("compare")
assert both["other"]["roles"][0]["causal"] and both["other"]["roles"][0]["role"] == "decoder"
# Other numbers of tokens: a sentence, and what can be compared.
beside = read("beside")["answers"]
assert beside["compare"]["why"] == "the other model has no encoder", beside["compare"]["why"]
for layer in read("flow")["answers"]["flow"]["layers"]: near(sum(share for _, share in layer), 1, 1e-3)
PYTHON

# ---- a run that was saved gives the same pictures ---------------------------------------------
ids="5 7 4 9 5 3 8"
for model in gpt2 bert bart t5 llama-gqa; do
  run 0 view --model "$models/$model" --out "$work/run.safetensors" "$ids"
  for view in model head neuron matrix flow; do
    run 0 view --model "$models/$model" --view $view --layer 1 --head 1 --out "$work/a.svg" "$ids"
    look "$work/run.safetensors" --view $view --layer 1 --head 1 --out "$work/b.svg"
    cmp -s "$work/a.svg" "$work/b.svg" || fail "$model: $view of the saved run is another picture"
  done
done
run 0 view --model "$models/bert" --out "$work/bert.safetensors" "$ids"
look "$work/bert.safetensors" --out "$work/again.safetensors"
look "$work/again.safetensors" --terminal --layer 1 --head 1
cp "$work/out" "$work/again"
run 0 view --model "$models/bert" --terminal --layer 1 --head 1 "$ids"
cmp -s "$work/out" "$work/again" || fail "the terminal shows a saved run otherwise"

# ---- files ------------------------------------------------------------------------------------
for view in model head matrix flow; do
  look "$arrays/weights.npz" --view $view --out "$work/$view.png"
  cmp -s -n 8 "$work/$view.png" <(printf '\x89PNG\r\n\x1a\n') || fail "$view.png is no PNG"
done
look "$arrays/weights.npz" --out "$work/page.html"
grep -q '"tensors": *true' "$work/page.html" || fail "the page does not know of tensors"
printf 'The\ndog\nran\n,\nit\nstopped\n' >"$work/tokens.txt"
look "$arrays/qkv.npz" --tokens "$work/tokens.txt" --terminal
look "$arrays/lower.npy" --terminal --view matrix
run 0 view --model "$models/gpt2" --tensors "$arrays/lower.npy" --json --view compare "1 2 3 4 5 6"

# ---- what cannot be -----------------------------------------------------------------------------
refuses() { complains 1 "$1" view --tensors "${@:2}" --terminal; }
python3 - "$work" <<'PYTHON'
import json, struct, sys
def save(name, tensors, notes=None):
    header, data = {}, b""
    for key, (shape, numbers) in tensors.items():
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        header[key] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    if notes: header["__metadata__"] = notes
    text = json.dumps(header).encode()
    open(f"{sys.argv[1]}/{name}.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
even = [0.5] * 4
save("negative", {"attention": ([2, 2], [1.5, -0.5, 0.5, 0.5])})
save("nan", {"attention": ([2, 2], [0.5, 0.5, float("nan"), 0.5])})
save("sums", {"attention": ([2, 2], [0.5, 0.5, 0.5, 0.25])})
save("batch", {"attention": ([1, 2, 1, 2, 2], even * 2)})
save("flat", {"attention": ([4], even)})
save("gap", {"attention.0": ([2, 2], even), "attention.2": ([2, 2], even)})
save("odd", {"attention.0": ([2, 2], even), "attention.1": ([1, 2], even[:2])})
save("strange", {"a": ([2, 2], even), "b": ([2, 2], even)})
save("widths", {"q": ([1, 2, 2], even), "k": ([1, 2, 1], even[:2])})
save("mask", {"q": ([1, 2, 2], even), "k": ([1, 2, 2], even), "mask": ([3, 3], [0.0] * 9)})
save("large", {"attention": ([7, 400, 400], [0.0025] * 7 * 400 * 400)})
save("noted", {"attention": ([2, 2], even)}, {"tokens": '["Ġthe", "Ġdog"]'})
PYTHON
refuses 'negative weight .-0.5 in row 0, column 1.*--signed' "$work/negative.safetensors"
refuses 'not finite .*nan in row 1, column 0' "$work/nan.safetensors"
refuses 'batch of texts: save one' "$work/batch.safetensors"
refuses '"attention" has the shape \[4\]' "$work/flat.safetensors"
refuses 'layer 1 are missing, and layer 2 is there' "$work/gap.safetensors"
refuses '"attention.1" has the shape \[1, 2\]: layers have one shape' "$work/odd.safetensors"
refuses 'no attention that is known by its name.*it has a, b' "$work/strange.safetensors"
refuses 'k is \[1, 1, 2, 1\], which does not fit' "$work/widths.safetensors"
refuses 'the mask does not fit' "$work/mask.safetensors"
refuses 'has no mask "nothing"' "$arrays/weights.npz" --mask nothing
refuses '3 tokens for attention of 6 rows' "$arrays/weights.npz" --tokens "a b c"
refuses 'it is not one' "$0"
refuses 'Python objects' "$arrays/object.npy"
refuses 'these tensors take 4 MB, and 1 are allowed' "$work/large.safetensors" --memory 1
look "$work/negative.safetensors" --signed --terminal
look "$work/sums.safetensors" --json
says 'row 1 of layer 0, head 0 sums to 0.75'
look "$work/noted.safetensors" --json
says '"·the", "·dog"'
complains 1 'neuron does not apply to weights.npz: it shows queries, keys and values' \
  view --tensors "$arrays/weights.npz" --view neuron --json
complains 1 'generate does not apply.*it runs a model' \
  view --tensors "$arrays/qkv.npz" --view generate --out "$work/x.svg"
complains 1 'flow does not apply.*cross-attention alone' \
  view --tensors "$arrays/cross.npz" --view flow --json
run 2 view --model "$models/gpt2" --tokens "a b" "1 2"
grep -q 'belong to --tensors' "$work/err" || fail "--tokens of a model is not refused"
run 2 view --tensors "$arrays/weights.npz" "a text"
grep -q 'no text: leave the text out' "$work/err" || fail "a text beside tensors is not refused"
