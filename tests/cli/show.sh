#!/usr/bin/env bash
# attend show: what a model is; of gigabytes, the headers alone are read.
. "$(dirname "$0")/lib.bash"

run 0 show --help
says 'Usage: attend show'

run 0 show "$models/llama-gqa"
says '^  family +llama, decoder$'
says '^  decoder +3 layers of width 48, 6 heads of 8, 2 kv heads, mlp 80$'
says '^  positions +rotary, 64, theta 10000$'
says '^  activation +silu, gated$'
says '^F32 +30 +73\.6 k +287 KiB$'
says '^cache of a token +384 B$'
says '^state with elu, any length '
says '^write, after 64 '
says 'attend bench machine'
run 0 show "$models/bert"
says '^  head +masked LM$'
says '^  norm +layer, eps .*, after each sum, after the embeddings$'
! grep -q cache "$work/out" || fail "an encoder has a cache"
run 0 show "$models/t5"
says '^  encoder +2 layers'
says '^  positions +buckets of distance, no limit, 8 up to distance 20$'
says '^encode, 1024 at once '

run 0 show "${models%/models}/arrays/weights.npz"
says '^attention +\[2, 4, 6, 6\] +F16 +576 B$'
says '^tokens +\[6, 5\] +U32 +120 B$'
run 0 show --json "$models/gpt2/model.safetensors"
says '"dtype": "F32"'
complains 1 'big-endian' show "${models%/models}/arrays/big.npy"

run 0 show --tensors "$models/gpt2"
says '^transformer\.h\.2\.attn\.c_attn\.weight +\[48, 144\] +F32 +27\.0 KiB +2  self-attention query, key, value$'
says '^transformer\.wte\.weight .*  token table$'
run 0 show --json "$models/bart"
says '^  "encoder": \{"layers": 2, "width": 48, "heads": 4, "kv_heads": 4, "dim": 12, "dim_v": 12, "mlp": 96\},$'
says '"cross_cache_per_token": 768'
says '"tokens_per_s": null'
run 0 show --json --tensors --weights int8 --attention elu "$models/gpt2"
says '"weights": "int8"'
says '\{"name": "transformer.wpe.weight", "shape": \[64, 48\], "dtype": "F32", "bytes": 12288, "what": "position table"\}'

# ---- three gigabytes in two shards, none of which is there ----------------------

# shard FILE "NAME SHAPE"...: a sparse file of zeros.
shard() {
  local file=$1 at=0 header='{' i one name shape bytes size length=''
  shift
  for one in "$@"; do
    name=${one%% *} shape=${one#* }
    size=$((4 * ${shape/,/*}))
    bytes=$((at + size))
    [[ $header == '{' ]] || header+=,
    header+="\"$name\":{\"dtype\":\"F32\",\"shape\":[$shape],\"data_offsets\":[$at,$bytes]}"
    at=$bytes
    map+="${map:+,}\"$name\":\"$(basename "$file")\""
  done
  header+='}'
  for ((i = 0; i < 8; i++)); do
    length+=$(printf '\\x%02x' $((${#header} >> 8 * i & 255)))
  done
  printf '%b%s' "$length" "$header" >"$file"
  truncate -s $((8 + ${#header} + at)) "$file"
}
# layer N: the tensors of a layer.
layer() {
  local at=model.layers.$1
  printf '%s\n' "$at.input_layernorm.weight 4096" \
    "$at.post_attention_layernorm.weight 4096" \
    "$at.self_attn."{q,k,v,o}"_proj.weight 4096,4096" \
    "$at.mlp."{gate,up}"_proj.weight 11008,4096" \
    "$at.mlp.down_proj.weight 4096,11008"
}
map=
mkdir "$work/big"
cat >"$work/big/config.json" <<'END'
{"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
 "num_attention_heads": 32, "num_hidden_layers": 3, "vocab_size": 32000,
 "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "hidden_act": "silu",
 "tie_word_embeddings": false}
END
mapfile -t tensors < <(layer 0)
shard "$work/big/model-1-of-2.safetensors" \
  "model.embed_tokens.weight 32000,4096" "${tensors[@]}"
mapfile -t tensors < <(layer 1; layer 2)
shard "$work/big/model-2-of-2.safetensors" "${tensors[@]}" \
  "model.norm.weight 4096" "lm_head.weight 32000,4096" \
  "model.rotary.inv_freq 64"
printf '{"weight_map":{%s}}' "$map" >"$work/big/model.safetensors.index.json"

run 0 show "$work/big"
says '^F32 +30 +869 M +3\.24 GiB$'
says '^not used +1 +- +256 B$'
says '^weights as int8 +705 MiB$'
run 0 show --tensors "$work/big"
says '^model\.rotary\.inv_freq +\[64\] +F32 +256 B +-  not used$'

# peak ARGUMENT...: kilobytes that it takes.
peak() {
  python3 - "$ATTEND" "$@" <<'END'
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss)
END
}
# Against a run that opens nothing: emulators and sanitizers have their own.
idle_kb=$(peak version)
kb=$(peak show --tensors "$work/big")
((kb - idle_kb < 50000)) || fail "show takes $((kb - idle_kb)) kB of memory"

complains 1 'there is no folder /no/such/model' show /no/such/model
rm "$work/big/model-2-of-2.safetensors"
complains 1 'model-2-of-2.safetensors' show "$work/big"
run 2 show "$models/bert" "$models/gpt2"

# A header of 64,000 empty tensors, and an index that names 4,000 shards 100
# times each: listed or refused at once, in little memory.
little() { (
  [[ -n ${ATTEND_SANITIZE:-} ]] || ulimit -v 786432 # sanitizers reserve more
  timeout 60 "$ATTEND" show "$@" >"$work/out" 2>"$work/err"
); }
mkdir "$work/many" "$work/shards"
cp "$models/gpt2/config.json" "$work/many"
cp "$models/gpt2/config.json" "$work/shards"
file=$models/gpt2/model.safetensors
head=$(($(od -An -tu8 -N8 "$file")))
{
  head -c $((head + 8)) "$file" | tail -c "$head" | sed 's/} *$//'
  seq -f ', "empty%g": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}' \
    64000 | tr -d '\n'
  printf '}'
} >"$work/header"
{
  bytes_of "$(stat -c %s "$work/header")"
  cat "$work/header"
  tail -c +$((head + 9)) "$file"
} >"$work/many/model.safetensors"
little "$work/many" --tensors || fail "64,000 empty tensors: $(cat "$work/err")"
[[ $(grep -c 'empty.*not used' "$work/out") == 64000 ]] || fail "not all are listed"
little "$work/many" --tensors --json || fail "64,000 empty tensors as JSON"
awk 'BEGIN { printf "{\"weight_map\": {\"t0\": \"s0\""
  for (i = 1; i < 400000; i++) printf ", \"t%d\": \"s%d\"", i, i % 4000
  print "}}" }' >"$work/shards/model.safetensors.index.json"
! little "$work/shards" || fail "shards that are not there are opened"
grep -q 's0: No such file' "$work/err" || fail "says: $(cat "$work/err")"
