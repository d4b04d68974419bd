#!/usr/bin/env bash
# attend train, killed at any instant, 200 times over: the next start goes on without a
# word, no saved step is lost, and in the end everything has the bits of a run that was
# never killed.
# In memory if possible: the speed of the disk does not matter here.
if [[ -w /dev/shm ]]; then export TMPDIR=/dev/shm; fi
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/train.bash"
without_tokenizers train --data "$work/text.txt" --out "$work/x"
kills=200
if [[ ${ATTEND_TEST_LIGHT:-0} != 0 ]]; then kills=12; fi
RANDOM=7
words=(--data "$work/text.txt" --tokenizer "$stories" --width 8 --heads 2 --layers 1
  --length 8 --batch 1 --schedule constant --warmup 0 --dropout 0.1 --keep 2
  --log-every 2 --valid-every 7 --valid-batches 2)

# How long a start and a few steps take here: kills fall within twice that, and more
# where they let nothing be saved, since others use the machine too.
now() { date +%s%N; }
start=$(now)
learn first "${words[@]}" --save-every 3 --steps 9
span=$((($(now) - start) / 1000000)) # ms

# newest: the last step that can be gone on from, -1: none.
newest() {
  local found=-1 folder
  for folder in "$work"/killed/step-*; do
    if [[ -e $folder/training.json ]]; then found=$((10#${folder##*-})); fi
  done
  echo "$found"
}

reached=-1
later=0
for ((i = 1; i <= kills && (SECONDS < 25 || i < 60); i++)); do
  "$ATTEND" train --out "$work/killed" --resume "${words[@]}" --save-every 3 \
    --steps 1000000 --threads $((1 + i % 2)) >"$work/out" 2>"$work/err" &
  child=$!
  delay=$((RANDOM * 2 * span / 32768))
  sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
  kill -KILL $child
  wait $child 2>/dev/null || true
  [[ ! -s $work/err ]] || fail "kill $i: the start complains: $(cat "$work/err")"
  at=$(newest)
  ((at >= reached)) || fail "kill $i: step $reached was saved, and now $at"
  if ((at > reached)); then
    later=$((later + 1))
    span=$((span * 14 / 15 + 5))
  else
    span=$((span * 16 / 15 + 1))
  fi
  reached=$at
  if [[ -e $work/killed/last ]]; then
    [[ -s $work/killed/last/model.safetensors && -s $work/killed/last/config.json ]] ||
      fail "kill $i: last leads nowhere"
  fi
  if ((reached >= 0 && i % 25 == 0)); then run 0 eval "$work/killed/last" "$work/text.txt"; fi
done
((reached > 0)) || fail "$i kills let it come to nothing"

end=$((reached + 10))
learn killed --resume --steps $end --threads 2
learn straight "${words[@]}" --steps $end --save-every 1000000 --threads 1
same_run straight killed
no_leftovers killed
echo "$((i - 1)) kills, $later of them after another saved step; $end steps, the same bits"
