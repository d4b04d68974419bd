#!/usr/bin/env bash
# attend pull, against a hub and a registry of our own on the loopback: what is
# fetched, what is refused, and what is left when something breaks.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/hub.bash"
golden=${ATTEND_GOLDEN:-tests/golden}/tokens

run 0 --help
says '^  pull +[a-z]'
run 0 pull --help
says 'Usage: attend pull'
complains 1 'run attend pull hf:small/bert$' tokenize hf:small/bert x
complains 1 'run attend pull npm:nobody$' tokenize npm:nobody x
complains 2 'names no model' tokenize hf:a/b/c x

without_pull

# ---- the world ---------------------------------------------------------------

model=$world/models/small/bert
mkdir -p "$model/1_Pooling" "$world/models/big/sharded" "$world/npm"
cp "$golden/bert-tokenizer.json" "$model/tokenizer.json"
echo '{"hidden_size": 8}' >"$model/config.json"
echo '{"pooling_mode_mean_tokens": true}' >"$model/1_Pooling/config.json"
echo '[]' >"$model/modules.json"
echo 'a model' >"$model/README.md"
head -c 3000000 /dev/urandom >"$model/model.safetensors"
head -c 1000 /dev/urandom >"$model/pytorch_model.bin"
cd "$world/models/big/sharded"
echo '{}' >config.json
for n in 1 2 3; do head -c 300000 /dev/urandom >"shard $n.safetensors"; done
echo '{"weight_map": {"a": "shard 1.safetensors", "b": "shard 2.safetensors",
  "c": "shard 1.safetensors"}}' >model.safetensors.index.json
cd - >/dev/null

start_hub
export HF_ENDPOINT=http://127.0.0.1:$port

hub=$work/cache/huggingface/hub
bert=$hub/models--small--bert

remove_hub() { rm -rf "$hub"; }
# same REPOSITORY FILE: what lies in the snapshot is what the hub has.
same() {
  cmp "$world/models/$1/$2" "$(cat "$work/out")/$2" || fail "$1/$2 differs"
}
tidy() {
  [[ -z $(find "$hub" -name '*.incomplete') ]] || fail "a blob is incomplete"
}

# ---- pulling -------------------------------------------------------------------

switches
run 0 pull hf:small/bert
[[ $(cat "$work/out") == "$bert/snapshots/$(cat "$bert/refs/main")" ]] ||
  fail "the path: $(cat "$work/out")"
[[ ! -s $work/err ]] || fail "a pull says: $(cat "$work/err")"
for file in config.json tokenizer.json modules.json 1_Pooling/config.json \
  model.safetensors; do
  same small/bert $file
done
snapshot=$(cat "$work/out")
[[ ! -e $snapshot/pytorch_model.bin && ! -e $snapshot/README.md ]] ||
  fail "a model does not need these"
sha=$(sha256sum <"$model/model.safetensors")
[[ $(readlink "$snapshot/model.safetensors") == "../../blobs/${sha%% *}" ]] ||
  fail "the link of a large file"
[[ $(readlink "$snapshot/1_Pooling/config.json") =~ ^../../../blobs/[0-9a-f]{40}$ ]] ||
  fail "the link of a small file"
[[ $(asked '^store .*token=.') == 0 ]] || fail "a token where there is none"
tidy

# Again: the list is asked for, and nothing else.
switches
run 0 pull hf:small/bert
[[ $(wc -l <"$world/log") == 1 ]] || fail "a second pull: $(cat "$world/log")"
run 0 pull --json hf:small/bert model.safetensors config.json
says "^  \"path\": \"$snapshot\","
says "\"name\": \"model.safetensors\", \"bytes\": 3000000, \"sha256\": \"${sha%% *}\", \"already\": true"
says '"name": "config.json", "bytes": 19, "sha256": "[0-9a-f]{64}", "already": true'

# What was pulled is a MODEL.
if [[ $ATTEND_TEXT == ON ]]; then
  run 0 tokenize --json hf:small/bert Hello
  says '"id": 7592'
fi

# Other files by name and pattern; all; other revisions; another name.
run 0 pull hf:small/bert 'READ*'
same small/bert README.md
run 0 pull --all --json hf:small/bert
says '"name": "pytorch_model.bin", .*"already": false'
run 0 pull hf:small/bert@v1/beta config.json
[[ $(cat "$bert/refs/v1/beta") == "$(cat "$bert/refs/main")" ]] || fail "a ref"
run 0 pull "hf:small/bert@$(cat "$bert/refs/main")" config.json
run 0 pull hf:old/name config.json model.safetensors
same small/bert model.safetensors

# Of several weights those that the index names.
run 0 pull hf:big/sharded
same big/sharded 'shard 1.safetensors'
same big/sharded 'shard 2.safetensors'
[[ ! -e "$(cat "$work/out")/shard 3.safetensors" ]] || fail "a shard too many"

# ---- offline -------------------------------------------------------------------

switches status=500
run 0 pull --offline hf:small/bert
[[ $(cat "$work/out") == "$snapshot" ]] || fail "offline: $(cat "$work/out")"
HF_HUB_OFFLINE=1 run 0 pull hf:big/sharded
sharded=$(cat "$work/out")
complains 1 'not in .*: pull without --offline' pull --offline hf:no/body
complains 1 'is called no.bin' pull --offline hf:small/bert no.bin
rm "$(realpath "$sharded/shard 2.safetensors")"
complains 1 'shard 2.* is not in .*without --offline' pull --offline \
  hf:big/sharded
[[ ! -s $world/log ]] || fail "offline asks: $(cat "$world/log")"
switches
run 0 pull hf:big/sharded
same big/sharded 'shard 2.safetensors'

# ---- what breaks ---------------------------------------------------------------

# A connection that breaks is taken up where it broke.
remove_hub
switches cut=1000000:2
run 0 pull hf:small/bert
same small/bert model.safetensors
[[ $(asked '^store .*range=bytes=1000000-') == 1 ]] || fail "no resume: $(cat "$world/log")"
[[ $(asked '^store .*range=bytes=2000000-') == 1 ]] || fail "no second resume"
tidy

# One that always breaks is given up, and the next pull resumes.
remove_hub
switches cut=1000
complains 1 'broke 4 times .*it resumes' pull hf:small/bert model.safetensors
[[ $(stat -c %s "$bert"/blobs/*.incomplete) == 4000 ]] || fail "what came"
[[ ! -e $bert/snapshots ]] || fail "half a file has a link"
switches
run 0 pull hf:small/bert model.safetensors
same small/bert model.safetensors
[[ $(asked '^store .*range=bytes=4000-') == 1 ]] || fail "from the start again"
tidy

# A server that knows no ranges starts over.
remove_hub
switches cut=1000:1 whole=1
run 0 pull hf:small/bert model.safetensors
same small/bert model.safetensors

# Too much of a file is none of it; so is all of it with wrong bytes.
blob=$bert/blobs/${sha%% *}
remove_hub
mkdir -p "$bert/blobs"
head -c 3000001 /dev/zero >"$blob.incomplete"
run 0 pull hf:small/bert model.safetensors
same small/bert model.safetensors
remove_hub
mkdir -p "$bert/blobs"
head -c 3000000 /dev/zero >"$blob.incomplete"
complains 1 'announced hash and was deleted: pull again' pull hf:small/bert \
  model.safetensors
run 0 pull hf:small/bert model.safetensors
same small/bert model.safetensors

# Wrong bytes are thrown away.
remove_hub
switches wrong=1
complains 1 'announced hash and was deleted: pull again' pull hf:small/bert
[[ ! -e $blob && ! -e $blob.incomplete ]] || fail "wrong bytes are kept"
[[ ! -e $bert/refs/main ]] || fail "half a model has a name"
complains 1 'run attend pull' tokenize hf:small/bert x
remove_hub
switches etag=0123456789012345678901234567890123456789
complains 1 'announced hash' pull hf:small/bert config.json
[[ -z $(ls "$bert/blobs") ]] || fail "wrong bytes are kept"

# A server in trouble is asked again, and not for ever.
remove_hub
switches status=503:2
run 0 pull hf:small/bert config.json
switches status=503
complains 1 'fails with 503: pull again later' pull hf:small/bert
[[ $(wc -l <"$world/log") == 4 ]] || fail "tries: $(cat "$world/log")"

# ---- interrupted, and two at once ------------------------------------------------

remove_hub
switches slow=1
set -m # as from a terminal: a job of its own, which hears SIGINT
"$ATTEND" pull hf:small/bert >"$work/out" 2>&1 &
job=$!
for ((i = 0; i < 200; i++)); do
  [[ -s $blob.incomplete ]] || sleep 0.05
done
kill -INT $job
got=0
wait $job || got=$?
set +m
((got == 130)) || fail "SIGINT ends it with $got"
[[ -s $blob.incomplete && ! -e $blob ]] || fail "nothing is left to go on from"
size=$(stat -c %s "$blob.incomplete")
switches
run 0 pull hf:small/bert
same small/bert model.safetensors
[[ $(asked "^store .*range=bytes=$size-") == 1 ]] || fail "SIGINT lost bytes"
tidy

remove_hub
switches slow=1
"$ATTEND" pull hf:small/bert >"$work/out" &
first=$!
"$ATTEND" pull hf:small/bert >"$work/out2" &
second=$!
wait $first || fail "the first of two"
wait $second || fail "the second of two"
cmp "$work/out" "$work/out2" || fail "two pulls, two folders"
same small/bert model.safetensors
[[ $(asked '^store') == 1 ]] || fail "two pulls fetch twice"
tidy

# ---- who may -----------------------------------------------------------------------

remove_hub
switches token=sesame
complains 1 'small/bert is gated: .*set HF_TOKEN' pull hf:small/bert
HF_TOKEN=wrong complains 1 'is gated' pull hf:small/bert
HF_TOKEN=sesame run 0 pull hf:small/bert
same small/bert model.safetensors
[[ $(asked '^hub .*token=Bearer sesame') -gt 3 ]] || fail "no token"
[[ $(asked '^store ') == 1 ]] || fail "the store is not asked"
[[ $(asked '^store .*token=.') == 0 ]] || fail "the token leaves its hub"
remove_hub
mkdir -p "$work/home"
echo sesame >"$work/home/token"
HF_HOME=$work/home run 0 pull hf:old/name config.json
[[ -e $work/home/hub/models--old--name/refs/main ]] || fail "HF_HOME"
HF_HUB_CACHE=$work/elsewhere HF_TOKEN=sesame run 0 pull hf:small/bert config.json
[[ -e $work/elsewhere/models--small--bert/refs/main ]] || fail "HF_HUB_CACHE"
switches status=401
complains 1 'set HF_TOKEN' pull hf:small/bert
HF_TOKEN=x complains 1 'check the name and HF_TOKEN' pull hf:small/bert

# ---- what is not there ---------------------------------------------------------------

switches
complains 1 'there is no no/body at' pull hf:no/body
complains 1 'no revision "v9"' pull hf:small/bert@v9
complains 1 'is called none.json' pull hf:small/bert none.json
HF_ENDPOINT=http://127.0.0.1:1 complains 1 'cannot be reached .*--offline' \
  pull hf:small/bert
for bad in hf: hf:a/b/c hf:../b hf:a/..b hf:a--b hf:a/b@ hf:a/b@../c 'hf:a b/c'; do
  complains 2 'names no model' pull "$bad"
done
for bad in "" "small/bert" "hf:small/bert --to x" "npm:x y" "npm:x --all" \
  "hf:small/bert --all x"; do
  # shellcheck disable=SC2086
  run 2 pull $bad
done

# ---- hostile servers -------------------------------------------------------------------

remove_hub
for name in ../config.json /etc/config.json a/../../config.json 'a\config.json' \
  a//b . a/./b $'a\tb' 'line%0Aend'; do
  switches "name=${name/$'\t'/%09}"
  complains 1 'leads out of its folder: nothing was pulled' pull hf:small/bert
  [[ ! -e $hub ]] || fail "$name: something was pulled"
done
switches etag=../../../../evil
complains 1 'gives no hash' pull hf:small/bert config.json
[[ -z $(find "$work" -name 'evil*') ]] || fail "an etag leads out of its folder"

# ---- a full disk -------------------------------------------------------------------------

remove_hub
switches
(
  ulimit -f 1000 # blocks of 1024 bytes
  complains 1 'cannot be written .*too large.*it resumes' pull hf:small/bert
)
[[ $(stat -c %s "$blob.incomplete") == 1024000 ]] || fail "what came is gone"
run 0 pull hf:small/bert
same small/bert model.safetensors
[[ $(asked '^store .*range=bytes=1024000-') == 1 ]] || fail "a full disk: no resume"
mkdir "$work/disk"
if ((EUID == 0)) && mount -t tmpfs -o size=1m none "$work/disk" 2>/dev/null; then
  HF_HUB_CACHE=$work/disk complains 1 'cannot be written .No space left' \
    pull hf:small/bert model.safetensors
  mount -o remount,size=16m "$work/disk"
  switches
  HF_HUB_CACHE=$work/disk run 0 pull hf:small/bert model.safetensors
  same small/bert model.safetensors
  [[ $(asked '^store .*range=bytes=[1-9]') == 1 ]] ||
    fail "no download was resumed"
fi
if [[ -w /dev/full ]]; then
  got=0
  "$ATTEND" pull hf:small/bert >/dev/full 2>"$work/err" || got=$?
  ((got == 1)) || fail "a path that cannot be written"
fi
