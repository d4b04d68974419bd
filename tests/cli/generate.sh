#!/usr/bin/env bash
# attend generate: text as it comes, the same text again, ends, contexts, ids.
. "$(dirname "$0")/lib.bash"
stories=$models/stories260K

run 0 generate --help
says 'Usage: attend generate'
says 'default: 0, greedy; 0.8'

# Ids need no tokenizer: the sorter sorts.
run 0 generate "$models/gpt-nano-sort" --ids "2 0 1 1 2 0" -n 6
[[ $(cat "$work/out") == "0 0 1 1 2 2" ]] || fail "not sorted: $(cat "$work/out")"
[[ ! -s $work/err ]] || fail "noise: $(cat "$work/err")"
run 0 generate "$models/gpt-nano-sort" --ids "[1, 0, 0, 2, 1, 1]" -n 6 --echo
[[ $(cat "$work/out") == "1 0 0 2 1 1 0 0 1 1 1 2" ]] || fail "with --echo"
run 0 generate "$models/gpt-nano-sort" --ids "1 0 0 2 1 1" -n 2 --json
says '"prompt": null, "text": null, "end": "length", "tokens": 2, '
says '"prompt_ids": \[1, 0, 0, 2, 1, 1\], "ids": \[0, 0\], '

# An encoder reads the prompt, a decoder answers; beams; the context.
run 0 generate "$models/t5" --ids "5 6 7 1" -n 8
run 0 generate "$models/bart" --ids "5 6 7 2" -n 8 --beams 3 --samples 2
says '^==> beam 2 <==$'
run 0 generate "$models/gpt-nano-sort" --ids "0 1 2" --ids "2 1 0" -n 20
grep -q '^attend: 2 of 2 texts ended because the context of 11 tokens is full: --slide' \
  "$work/err" || fail "a full context is not reported: $(cat "$work/err")"
run 0 generate "$models/gpt-nano-sort" --ids "0 1 2" -n 20 --slide
[[ $(wc -w <"$work/out") == 20 ]] || fail "--slide does not go on"
grep -q 'full 2 times, and its older half was dropped' "$work/err" ||
  fail "sliding is not reported: $(cat "$work/err")"
long="0 1 2 0 1 2 0 1 2 0 1 2"
complains 2 'the prompt has 12 tokens and the context holds 11: .*--slide' \
  generate "$models/gpt-nano-sort" --ids "$long"
run 0 generate "$models/gpt-nano-sort" --ids "$long" --slide -n 1
grep -q 'its first 1 were left out' "$work/err" || fail "truncation is not reported"

# What does not go together, and what is not there.
complains 2 'more than the 11 positions' \
  generate "$models/gpt-nano-sort" --ids 0 --context 12
complains 2 'bert is an encoder' generate "$models/bert" --ids 0
complains 2 'is no id' generate "$models/gpt2" --ids "1 x"
complains 2 'the model knows 0 to 210' generate "$models/gpt2" --ids 211
run 2 generate "$stories" a prompt
grep -q 'one prompt at a time: put quotes around it' "$work/err" || fail "no remedy"
run 2 generate "$stories" a --prompt b
grep -q 'given twice' "$work/err" || fail "two prompts"
run 2 generate "$stories" --prompt a --ids 1
run 2 generate "$stories" --prompt a --lines
run 2 generate "$stories" --beams 2 --temp 1
run 2 generate "$stories" --beams 2 --samples 3
run 2 generate "$stories" --early-stop
run 2 generate "$stories" --top-p 1.5
grep -q -- '--top-p takes a number from 0 to 1' "$work/err" || fail "--top-p 1.5"
run 2 generate "$stories" --min 9 -n 8

without_tokenizers generate "$stories" -p Lily -n 1
complains 1 'has no tokenizer.*--ids' generate "$models/gpt2" --prompt x

# The begin token, a prompt, the standard input: each gives the same text.
story='Once upon a time, there was a little girl named Lily.'
"$ATTEND" generate "$stories" -n 200 </dev/null >"$work/begin"
[[ $(head -c ${#story} "$work/begin") == "$story" ]] ||
  fail "no story: $(cat "$work/begin")"
run 0 generate "$stories" --prompt "Once upon a time" --echo -n 60
cp "$work/out" "$work/prompt"
[[ $(head -c ${#story} "$work/prompt") == "$story" ]] || fail "the prompt's story"
echo "Once upon a time" | "$ATTEND" generate "$stories" --echo -n 60 >"$work/out"
cmp "$work/prompt" "$work/out" || fail "the standard input's story"
run 0 generate "$stories" --prompt "Once upon a time" --echo -n 60 --threads 1
cmp "$work/prompt" "$work/out" || fail "on one thread"

# A begin token ends a text; --ignore-end passes over it; a stop string.
run 0 generate "$stories" --prompt "Once upon a time" -n 400 --json
says '"end": "end", '
run 0 generate "$stories" --prompt "Once upon a time" -n 400 --json --ignore-end
says '"end": "length", "tokens": 400, '
run 0 generate "$stories" --prompt "Once upon a time" --stop " Lily" --stop girl \
  --echo
[[ $(cat "$work/out") == "Once upon a time, there was a little " ]] ||
  fail "--stop: $(cat "$work/out")"

# Prompts in a batch, line by line, are what each is alone.
printf 'Tom\n\nLily and' >"$work/in"
for batch in 1 3; do
  "$ATTEND" generate "$stories" --lines -n 20 --batch $batch <"$work/in" \
    >"$work/lines$batch"
done
cmp "$work/lines1" "$work/lines3" || fail "batches differ"
[[ $(grep -c '^==> prompt [123] <==$' "$work/lines1") == 3 ]] || fail "headers"
run 0 generate "$stories" --prompt "Lily and" -n 20
tail -n "$(wc -l <"$work/out")" "$work/lines1" | cmp - "$work/out" ||
  fail "a prompt of a batch differs from the same alone"

# Draws: by seed and number alone.
drawn=(generate "$stories" --prompt Tom --top-p 0.9 -n 20)
run 0 "${drawn[@]}" --samples 3
cp "$work/out" "$work/three"
says '^==> sample 3 <==$'
run 0 "${drawn[@]}" --samples 3 --batch 1 --threads 1
cmp "$work/out" "$work/three" || fail "draws depend on the batch"
run 0 "${drawn[@]}"
sed -n 2p "$work/three" | cmp - "$work/out" || fail "draws depend on --samples"
run 0 "${drawn[@]}" --seed 1
sed -n 2p "$work/three" | cmp -s - "$work/out" && fail "every seed draws the same"
run 0 "${drawn[@]}" --seed random
seed=$(sed -n 's/^attend: --seed \([0-9]*\) gives this output again$/\1/p' "$work/err")
cp "$work/out" "$work/random"
run 0 "${drawn[@]}" --seed "$seed"
cmp "$work/out" "$work/random" || fail "--seed random does not say its seed"

# Other weights and forms, statistics.
for how in "--weights bf16" "--weights int8" "--attention elu" "--precision bf16"; do
  # shellcheck disable=SC2086 # two words
  run 0 generate "$stories" --prompt Tom -n 8 $how --stats
  grep -Eq '^new +8 tokens in .* tokens/s, 7 steps that read .*B/s$' "$work/err" ||
    fail "no statistics: $(cat "$work/err")"
done

# The first interrupt ends it well.
"$ATTEND" generate "$stories" --prompt Tom -n 1000000 --slide --ignore-end \
  >"$work/out" 2>"$work/err" &
pid=$!
for ((i = 0; i < 600; i++)); do
  [[ $(wc -c <"$work/out") -lt 50 ]] || break
  sleep 0.1
done
# Bash starts background jobs with SIGINT ignored; the program sets its own.
kill -INT $pid
got=0
wait $pid || got=$?
((got == 130)) || fail "an interrupt exits with $got"
[[ -z $(tail -c 1 "$work/out") ]] || fail "no line end after an interrupt"

# An empty input has no texts; unreadable input is reported.
[[ $("$ATTEND" generate "$stories" --lines --json </dev/null) == '[]' ]] ||
  fail "no lines are not an empty array"
got=0
"$ATTEND" generate "$stories" <"$work" >"$work/out" 2>"$work/err" || got=$?
((got == 1)) || fail "a folder as the standard input exits with $got"
grep -q 'standard input cannot be read' "$work/err" || fail "does not say why"
