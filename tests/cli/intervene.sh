#!/usr/bin/env bash
# attend intervene: changes from the command line equal those of PyTorch hooks; sweeps; refusals.
. "$(dirname "$0")/lib.bash"
goldens=${ATTEND_GOLDEN:-tests/golden}/interventions
is_object() { python3 -m json.tool "$work/out" >/dev/null || fail "no JSON"; }

# golden NAME OPTION...: the logits with these changes, for compare_all
golden() {
  local name=$1
  shift
  run 0 intervene "$models/$family" --ids "$ids" --logits "$work/logits/$name" "$@"
}

# compare_all: what golden wrote equals the tensors of these names, to 1e-4.
compare_all() {
  python3 - "$work/logits" "$goldens/$family.safetensors" <<'END' ||
import array, json, pathlib, struct, sys
def read(path, name):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    t = json.loads(data[8:8 + n])[name]
    a, b = t["data_offsets"]
    return t["shape"], array.array("f", data[8 + n + a:8 + n + b])
for out in pathlib.Path(sys.argv[1]).iterdir():
    for got, want in (("after", out.name), ("before", "before")):
        (s, x), (r, y) = read(out, got), read(sys.argv[2], want)
        if s != r or max(abs(p - q) for p, q in zip(x, y)) > 1e-4:
            sys.exit(f"{want} is not what PyTorch computes")
END
    fail "$family"
}

# ids_of NAME: a list of ids in the goldens
ids_of() {
  python3 - "$goldens/$family.safetensors" "$1" <<'END'
import array, json, struct, sys
data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
a, b = json.loads(data[8:8 + n])[sys.argv[2]]["data_offsets"]
print(*array.array("i", data[8 + n + a:8 + n + b]))
END
}

for family in gpt2 llama-gqa bert; do
  mkdir "$work/logits"
  ids=$(ids_of ids) from=$(ids_of from_ids)
  golden ablate.1.2 --ablate 1.2
  golden ablate.0.0,2.3 --ablate 0.0,2.3
  golden ablate.attention.1 --ablate '1.*'
  golden ablate.mlp.1 --ablate mlp:1
  golden resample.1.2 --ablate 1.2 --mode resample --from-ids "$from"
  golden patch.residual.1.2-3 --patch residual:1:2-3 --from-ids "$from"
  golden patch.residual.embedding.2-3 --patch residual:in:2-3 --from-ids "$from"
  golden patch.pattern.1 --patch pattern:1 --from-ids "$from"
  golden steer.0 --steer "residual:0=$goldens/$family.safetensors:steer*2"
  golden pin.uniform.1.2 --pin 1.2=uniform
  golden pin.previous.1.2 --pin 1.2:previous
  compare_all
  rm -r "$work/logits"
done

# Nothing changed is nothing different.
run 0 intervene "$models/gpt2" --ids "5 9 12" --json
is_object
says '"changes": \[\], .*"kl": 0, .*"state": 0'
run 0 intervene "$models/gpt2" --ids "5 9 12" --json \
  --steer "residual:0=$goldens/gpt2.safetensors:steer*0"
says '"kl": 0, .*"state": 0'
run 0 intervene "$models/gpt2" --ids "5 9 12" --ablate 1.2,mlp:0 --target 95 --against 34 --json
is_object
says '"kind": "ablate", "place": "mlp:0", "point": "mlp"'
says '"target": 95, "against": 34, "logit": \{"before": '
run 0 intervene "$models/bart" --ids "5 9 12" --decoder-ids "2 7 9" --ablate cross:0 --position -2
says '^next token at position 1, after “7”$'

# A sweep's cell is the single intervention.
run 0 intervene "$models/gpt2" --ids "5 9 12" --sweep heads --target 95 --json
is_object
cell=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["map"][1][2])' "$work/out")
run 0 intervene "$models/gpt2" --ids "5 9 12" --ablate 1.2 --target 95 --json
says "\"after\": $cell"
run 0 intervene "$models/gpt2" --ids "5 9 12" --from-ids "7 8 4" --sweep tokens --metric kl
says '^layer ↓, token →: change of the KL divergence$'
says '^in +[+]0\.'
run 0 intervene "$models/bert" --ids "5 9 12" --sweep tokens --point mlp --metric state --batch 2
says '^largest changes$'

# A range of tokens ends with the text.
run 0 intervene "$models/gpt2" --ids "5 9 12" --patch residual:1:2-3 --from-ids "7 8 4" --json
is_object
cp "$work/out" "$work/cut"
run 0 intervene "$models/gpt2" --ids "5 9 12" --patch residual:1:2 --from-ids "7 8 4" --json
[[ $(grep -o '"after": [^,}]*' "$work/out") == "$(grep -o '"after": [^,}]*' "$work/cut")" ]] ||
  fail "tokens 2 to 3 of three are not token 2"

complains 2 'layer 9: there are 3, 0 to 2' intervene "$models/gpt2" --ids 5 --ablate 9.0
complains 2 'head 7: there are 4, 0 to 3' intervene "$models/gpt2" --ids 5 --ablate 1.7
complains 2 'token 4: the text has 2' intervene "$models/gpt2" --ids "5 6" --ablate 1.2:4
complains 2 '"x" is not a place' intervene "$models/gpt2" --ids 5 --ablate x
complains 2 'there is no token 999' intervene "$models/gpt2" --ids 999
complains 2 '--position 3: there are 2 tokens' intervene "$models/gpt2" --ids "5 6" --position 3
complains 2 'ends in .svg, .png, .html or .json' intervene "$models/gpt2" --ids 5 --sweep heads \
  --out map.pdf
complains 2 'choose residual' intervene "$models/gpt2" --ids 5 --sweep heads --point heads
complains 2 'there is no tensor love in' intervene "$models/gpt2" --ids 5 \
  --steer "residual:1=$goldens/gpt2.safetensors:love"
complains 2 'add =FILE' intervene "$models/gpt2" --ids 5 --steer residual:1
for wrong in "--mode mean" "--mode resample" "--patch 1.2" "--minus a" "--sweep rows" \
  "--sweep heads --ablate 1.2" "--out map.svg" "--from-ids 1 --from a"; do
  read -ra words <<<"$wrong"
  run 2 intervene "$models/gpt2" --ids "5 6" "${words[@]}" --ablate 1.0
done
run 2 intervene

[[ $ATTEND_TEXT == ON ]] || exit 0
for family in gpt2 bert bart; do with_words $family; done

# Texts, another text, a corpus; tokens by their names.
run 0 intervene "$work/gpt2" "the cat sat" --from "a cat sat" --patch residual:0 --target mat
says '^next token at position [0-9], after '
says '^logit of “.*mat”: '
printf 'the cat sat\na mat\n' >"$work/corpus"
run 0 intervene "$work/gpt2" "the cat sat" --ablate 0 --mode mean --corpus "$work/corpus" \
  --loss "$work/corpus" --generate 4
says '^loss of the file, nats per token: '
says '^with the changes:$'
run 0 intervene "$work/gpt2" "the cat" --steer 'residual:1*2' --steer-from "the cat" --minus "a mat"
run 0 intervene "$work/bert" "the [MASK] sat" --ablate 0.1
says '^token at position 2, in the place of “.MASK.”'
complains 2 'reads one text' intervene "$work/gpt2" "the" "cat"
complains 2 'more than one token' intervene "$work/gpt2" "the" --target "cat sat"
complains 2 'has no texts' intervene "$work/gpt2" "the" --ablate 0 --mode mean --corpus /dev/null

[[ $ATTEND_VIEW == ON ]] || exit 0
for as in svg png html json; do
  run 0 intervene "$work/gpt2" "the cat sat" --sweep heads --out "$work/map.$as"
  [[ -s $work/map.$as ]] || fail "no map.$as"
done
grep -q '<svg' "$work/map.html" || fail "no picture in the page"
python3 -m json.tool "$work/map.json" >/dev/null || fail "map.json"
