#!/usr/bin/env bash
# attend attribute: every method; sums beside true differences; refusals.
. "$(dirname "$0")/lib.bash"
goldens=${ATTEND_GOLDEN:-tests/golden}/interventions

# The methods equal autograd, to 1e-4: attend's JSON beside a tensor of the goldens.
for family in gpt2 llama-gqa bert; do
  for method in gradient integrated direct lens; do
    python3 - "$ATTEND" "$models/$family" "$goldens/$family.safetensors" $method <<'END' ||
import array, json, struct, subprocess, sys
attend, model, path, method = sys.argv[1:]
data = open(path, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8:8 + n])
def tensor(name):
    a, b = header[name]["data_offsets"]
    kind = "i" if header[name]["dtype"] == "I32" else "f"
    return array.array(kind, data[8 + n + a:8 + n + b])
more = {"integrated": ["--steps", "16", "--baseline", "4"]}.get(method, [])
out = json.loads(subprocess.run(
    [attend, "attribute", model, "--ids", " ".join(map(str, tensor("ids"))), "--method", method,
     "--position", str(int(tensor("position")[0])), "--json", *more],
    check=True, capture_output=True, text=True).stdout)
def near(got, name):
    want = tensor(name)
    bound = 1e-4 * max(1, max(map(abs, want)))
    if len(got) != len(want) or max(abs(a - b) for a, b in zip(got, want)) > bound:
        sys.exit(f"{name}: {got[:3]} is not {list(want[:3])}")
scores = [t.get("score") for t in out["tokens"]]
if method == "gradient": near(scores, "gradient_input")
if method == "integrated":
    near(scores, "integrated.tokens")
    near([out["difference"]], "difference.tokens")
if method == "direct":
    near([x for row in out["contributions"] for x in row[:-1]], "direct.heads")
    near([row[-1] for row in out["contributions"]], "direct.mlp")
    near([out["embedding"]], "direct.embedding")
    near([out["logit"]], "direct.logit")
if method == "lens":
    position, logits = int(tensor("position")[0]), tensor("logit_lens")
    vocab = header["logit_lens"]["shape"][1]
    for layer, row in enumerate(out["lens"]):
        values = logits[layer * vocab:(layer + 1) * vocab]
        if max(values) - values[row[position][0]["id"]] > 1e-4: sys.exit(f"lens, layer {layer}")
END
      fail "$family: $method is not autograd's"
  done
done

# Completeness is printed, and holds.
run 0 attribute "$models/gpt2" --ids "5 9 12 40" --baseline 4
says '^sum of the scores    '
says '^true difference      '
says '^complete to          0\.[0-9]+ %$'
run 0 attribute "$models/gpt2" --ids "5 9 12 40" --method attention --target 7 --against 9
says '^attention × gradient: the logit of “7” minus that of “9” at position 3$'
says '^layer ↓, head →: score$'
run 0 attribute "$models/bart" --ids "5 9 12" --decoder-ids "2 7" --method attention --role encoder
run 0 attribute "$models/bart" --ids "5 9 12" --decoder-ids "2 7" --method direct
says 'cross 0'
says '= the logit of '
run 0 attribute "$models/t5" --ids "5 9 12" --decoder-ids "0 7" --method gradient --json
python3 -m json.tool "$work/out" >/dev/null || fail "no JSON"
says '"decoder": true'

complains 2 'put \[MASK\] in the place of one' attribute "$models/bert" --ids "5 9"
complains 2 'there is no token 999' attribute "$models/gpt2" --ids 999
for wrong in "--baseline 4 --method gradient" "--steps 4 --method direct" "--method saliency" \
  "--role cross" "--method lens --target 4"; do
  read -ra words <<<"$wrong"
  run 2 attribute "$models/gpt2" --ids "5 6" "${words[@]}"
done
complains 2 'gpt2 has no cross attention' attribute "$models/gpt2" --ids 5 --method attention \
  --role cross
run 2 attribute

[[ $ATTEND_TEXT == ON ]] || exit 0
for family in gpt2 bert bart; do with_words $family; done
run 0 attribute "$work/bert" "the [MASK] sat" --steps 4
says 'baseline, \[MASK\]\)$'
run 0 attribute "$work/bart" "the cat sat" "a cat" --method gradient
run 0 attribute "$work/bart" "the cat sat" --method lens
run 0 attribute "$work/gpt2" "the cat sat" --method lens
says '^layer ↓, token →: probability$'
says '^in '

[[ $ATTEND_VIEW == ON ]] || exit 0
for method in integrated lens; do
  for as in svg png html json; do
    run 0 attribute "$work/gpt2" "the cat sat" --method $method --out "$work/a.$as"
    [[ -s $work/a.$as ]] || fail "no a.$as"
  done
done
grep -q '<svg' "$work/a.html" || fail "no picture in the page"
