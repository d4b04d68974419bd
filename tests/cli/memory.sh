#!/usr/bin/env bash
# Memory of a model that runs: its weights once, the cache, the workspace, and a
# constant; the mapped file does not stay beside the packed weights.
. "$(dirname "$0")/lib.bash"

# A Llama of 33 million parameters (6 for emulators), all zeros, in a file that
# takes no disk.
python3 - "$work/model" <<'P'
import json, os, struct, sys
folder = sys.argv[1]
os.makedirs(folder)
F, I, L, V = 512, 2048, 6, 16000
if os.environ.get("ATTEND_TEST_LIGHT"):
    L, V = 1, 4000
config = dict(model_type="llama", hidden_size=F, intermediate_size=I, vocab_size=V,
              num_hidden_layers=L, num_attention_heads=8, max_position_embeddings=256,
              tie_word_embeddings=True)
json.dump(config, open(folder + "/config.json", "w"))
shapes = {"model.embed_tokens.weight": [V, F], "model.norm.weight": [F]}
for i in range(L):
    at = f"model.layers.{i}."
    for name, shape in (("input_layernorm", [F]), ("post_attention_layernorm", [F]),
                        ("self_attn.q_proj", [F, F]), ("self_attn.k_proj", [F, F]),
                        ("self_attn.v_proj", [F, F]), ("self_attn.o_proj", [F, F]),
                        ("mlp.gate_proj", [I, F]), ("mlp.up_proj", [I, F]),
                        ("mlp.down_proj", [F, I])):
        shapes[at + name + ".weight"] = shape
header, offset = {}, 0
for name, shape in shapes.items():
    bytes_ = 4
    for n in shape:
        bytes_ *= n
    header[name] = dict(dtype="F32", shape=shape, data_offsets=[offset, offset + bytes_])
    offset += bytes_
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(folder + "/model.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + offset)
P

# peak ARGUMENT...: the program's largest resident set, in bytes
peak() {
  python3 - "$ATTEND" "$@" <<'P'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=open("/dev/null", "w"))
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
P
}

idle=$(peak version)
for weights in f32 bf16 int8; do
  run 0 generate "$work/model" --ids "1 2 3" -n 20 --threads 1 --json \
    --weights $weights
  need=$(grep -oE '"(weights|cache)_bytes": [0-9]+' "$work/out" |
    awk '{sum += $2} END {print sum}')
  used=$(peak generate "$work/model" --ids "1 2 3" -n 20 --threads 1 \
    --weights $weights)
  # The constant: the program and its libraries, and activations of 512 rows.
  # Sanitizers and emulators keep several times as much beside what they watch.
  most=$((need + idle + (24 << 20)))
  [[ ! ${ATTEND_TEST_LIGHT:-} ]] || most=$((6 * need + idle + (64 << 20)))
  ((used <= most)) ||
    fail "$weights takes $used bytes for $need of weights and cache"
  ((used >= need)) || fail "$weights says $need bytes and takes $used"
done
