#!/usr/bin/env bash
# attend train: what goes on has the bits of what never stopped, on another number of
# threads, after an interrupt, after a full disk; one run in a folder at a time.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
without_tokenizers train --data "$work/text.txt" --out "$work/x"
words=(--data "$work/text.txt" --tokenizer "$stories" "${tiny[@]}" --dropout 0.1
  --schedule constant --warmup 0 --rate 0.1 --log-every 3 --valid-every 4)

# begin OUT ARGUMENT...: in the background, until the log has lines; $child.
begin() {
  local out=$1
  shift
  "$ATTEND" train --out "$work/$out" "${words[@]}" "$@" >"$work/messages" 2>&1 &
  child=$!
  for _ in {1..1500}; do
    if [[ -s $work/$out/last/config.json && $(wc -l <"$work/$out/log.jsonl") -gt 4 ]]; then
      return
    fi
    sleep 0.02
  done
  fail "nothing was trained: $(cat "$work/messages")"
}

# end SIGNAL WORDS: it saves, says so, and exits with 130.
end() {
  local code=0
  kill -"$1" "$child"
  wait "$child" || code=$?
  [[ $code == 130 ]] || fail "SIG$1: exits with $code: $(cat "$work/messages")"
  grep -q "$2" "$work/messages" || fail "SIG$1: $(cat "$work/messages")"
}

step_of() { readlink "$work/$1/last" | sed 's/step-0*//'; }

# ---- a pause, and other threads ---------------------------------------------------------
learn whole "${words[@]}" --steps 14 --save-every 5 --threads 1
learn parts "${words[@]}" --steps 5 --save-every 5 --threads 2
learn parts --resume --steps 10 --threads 1
learn parts --resume --steps 14 --threads 2
says 'it resumes'
[[ $(step_of parts) == 14 ]] || fail "parts"
for file in model.safetensors training.safetensors; do
  cmp "$work/whole/last/$file" "$work/parts/last/$file" || fail "$file"
done
before=$(md5sum <"$work/parts/run.json")
learn parts --resume # with what it was gone on with
says '^14 steps'
[[ $(md5sum <"$work/parts/run.json") == "$before" ]] || fail "run.json changed"
(cd / && learn parts --resume --steps 15) # files are found from anywhere

# ---- interrupts ---------------------------------------------------------------------------
# Between two lines of the log, so that sums go on too.
begin stopped --steps 100000 --save-every 100000 --log-every 1000003
complains 1 'in use by another training' train --resume --out "$work/stopped"
complains 1 'in use by another training' train "${words[@]}" --out "$work/stopped"
end INT 'interrupted: --resume continues it'
no_leftovers stopped
complains 2 'holds a training run already' train "${words[@]}" --out "$work/stopped"
n=$(step_of stopped)
end=$((n + 7 - n % 4)) # not where it would be measured anyway
learn stopped --resume --steps $end --threads 1
learn straight "${words[@]}" --steps $end --save-every 100000 --log-every 1000003
grep -q '"best": false' "$work/straight/log.jsonl" || fail "every step was the best"
same_run straight stopped
begin signal --steps 100000 --save-every 100000 --json
end TERM '"interrupted": true'

# ---- a full disk ---------------------------------------------------------------------------
# limited KIB ARGUMENT...: as run 1, where no file may grow beyond that.
limited() {
  local code=0
  (ulimit -f "$1" && shift && "$ATTEND" "$@") >"$work/out" 2>"$work/err" || code=$?
  [[ $code == 1 ]] || fail "a full disk: exits with $code: $(cat "$work/err")"
  [[ $(wc -l <"$work/err") == 1 ]] || fail "a full disk: $(cat "$work/err")"
}
limited 16 train "${words[@]}" --steps 8 --out "$work/full"
no_leftovers full
[[ ! -e $work/full/last ]] || fail "a step was saved on a full disk"
learn full --resume --steps 5 --save-every 5
limited 16 train --resume --out "$work/full" --steps 14
grep -q 'File too large; the last checkpoint is intact' "$work/err" || fail "$(cat "$work/err")"
no_leftovers full
[[ $(step_of full) == 5 ]] || fail "the last saved step is gone"
run 0 eval "$work/full/last" "$work/text.txt"
learn full --resume --steps 14
cmp "$work/whole/last/training.safetensors" "$work/full/last/training.safetensors" ||
  fail "after a full disk"
# A real one, where a file system may be mounted.
# shellcheck disable=SC2016 # for the other shell
if unshare -m true 2>/dev/null; then
  mkdir "$work/small"
  unshare -m bash -c '
    mount -t tmpfs -o size=400k none "$1/small" 2>/dev/null || exit 42
    shift; "$@"' - "$work" "$ATTEND" train "${words[@]}" --steps 400 --save-every 1 \
    --out "$work/small/run" >"$work/out" 2>"$work/err" && code=0 || code=$?
  if [[ $code != 42 ]]; then
    [[ $code == 1 && $(wc -l <"$work/err") == 1 ]] || fail "$code: $(cat "$work/err")"
    grep -Eq 'No space left|disk may be full' "$work/err" || fail "$(cat "$work/err")"
  fi
fi

# ---- runs that were damaged -----------------------------------------------------------------
cp -r "$work/parts" "$work/hurt"
truncate -s 1000 "$work/hurt/last/training.safetensors"
complains 1 'training.safetensors' train --resume --out "$work/hurt"
rm "$work/hurt/last/training.json"
complains 1 'training.json is missing; step .* from last-good' \
  train --resume --out "$work/hurt"
rm -f "$work"/hurt/step-*/training.json
complains 2 'can be resumed' train --resume --out "$work/hurt"
rm -r "$work/hurt" && cp -r "$work/parts" "$work/hurt"
complains 2 'other texts or other batches' train --resume --out "$work/hurt" --batch 3
# run.json of an older version may have --valid-lessons.
complains 2 'other texts or other batches' train --resume --out "$work/hurt" --batch 3 \
  --valid-lessons 2
complains 2 'other texts or other batches' train --resume --out "$work/hurt" \
  --data "$work/pairs.tsv" --task causal
for other in "--width 48" "--attention elu" "--family llama"; do
  # shellcheck disable=SC2086
  complains 2 'begun with another model' train --resume --out "$work/hurt" $other
done
grep -q 'elu' "$work/hurt/run.json" && fail "what was refused is remembered"
echo '{"words": [5, null, ["--data"]], "later": 7}' >"$work/hurt/run.json"
complains 2 'no training to go on with' train --resume --out "$work/hurt"
echo '{"words": [' >"$work/hurt/run.json"
complains 1 'run.json' train --resume --out "$work/hurt"
# Links that lead elsewhere, half a step, half a line: as a kill may leave them.
rm -r "$work/hurt" && cp -r "$work/whole" "$work/hurt"
ln -sfn step-00000005 "$work/hurt/last"
rm "$work/hurt/best"
mkdir "$work/hurt/.step-00000009.part" "$work/hurt/.gone.part" "$work/hurt/.base.part"
touch "$work/hurt/.step-00000009.part/model.safetensors.part" \
  "$work/hurt/run.json.0a1b2c3d.part" "$work/hurt/loss.svg.0a1b2c3e.part"
printf '{"step": 15, "loss": 1}\n{"step": 14, "lo' >>"$work/hurt/log.jsonl"
learn hurt --resume
same_run whole hurt
no_leftovers hurt

# ---- saved steps that are not what was saved --------------------------------------------------
# flip FILE: one bit in the middle of it.
flip() {
  local at=$(($(stat -c %s "$1") / 2)) byte
  byte=$(od -An -tu1 -j $at -N 1 "$1")
  printf '%b' "\\x$(printf %x $((byte ^ 16)))" | dd of="$1" bs=1 seek=$at conv=notrunc status=none
}
for file in model.safetensors training.safetensors training.json config.json; do
  rm -r "$work/hurt" && cp -r "$work/whole" "$work/hurt"
  flip "$work/hurt/step-00000014/$file"
  complains 1 "step-00000014/$file is damaged.* from last-good" \
    train --resume --out "$work/hurt" --steps 20
done
rm -r "$work/hurt" && cp -r "$work/whole" "$work/hurt"
cp "$work/hurt/step-00000010/model.safetensors" "$work/hurt/step-00000014"
complains 1 'model.safetensors is damaged, or of another step.* step 12 is as it was' \
  train --resume --out "$work/hurt" --steps 20
[[ -e $work/hurt/step-00000014 ]] || fail "a step was removed unasked"
complains 2 'holds no step that the run could resume from' train --resume-from 11 --out "$work/hurt"
learn hurt --resume-from last-good --steps 14
[[ $(step_of hurt) == 14 ]] || fail "from the last good step"
same_run whole hurt
learn hurt --resume-from 12 --steps 12
[[ $(step_of hurt) == 12 && ! -e $work/hurt/step-00000014 ]] || fail "from step 12"
grep -q resume-from "$work/hurt/run.json" && fail "--resume-from is remembered"
learn hurt --resume --steps 14
same_run whole hurt
# The mean of steps, one of which is damaged; steps without digests.
flip "$work/hurt/step-00000010/model.safetensors"
run 1 train --resume --out "$work/hurt" --average 3
grep -q 'step-00000010/model.safetensors is damaged' "$work/err" || fail "a mean of damage"
rm "$work/hurt/step-00000014/digests.json"
complains 1 'step-00000014 has no digests.json' train --resume --out "$work/hurt"
# What goes with every step.
for file in config.json tokenizer.json; do
  rm -r "$work/hurt" && cp -r "$work/whole" "$work/hurt"
  [[ -e $work/hurt/base/$file ]] || continue
  rm "$work/hurt/base/$file"
  complains 1 "base/$file is missing.* copy it" train --resume --out "$work/hurt" --steps 20
  cp "$work/hurt/last/$file" "$work/hurt/base"
  learn hurt --resume --steps 15
done
echo >>"$work/hurt/base/config.json"
complains 1 'base/config.json is missing, or not what' train --resume --out "$work/hurt"
# What it is measured with.
head -c 3000 "$work/text.txt" >"$work/held.txt"
learn measured "${words[@]}" --valid "$work/held.txt" --steps 5
echo 'more' >>"$work/held.txt"
complains 2 'the validation texts of .* have changed' train --resume --out "$work/measured" --steps 8
