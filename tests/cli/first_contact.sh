#!/usr/bin/env bash
# What a newcomer types without reading: it works, or one sentence says what to type.
. "$(dirname "$0")/lib.bash"

# Alone it says what it is and gives five commands, which run as they are printed.
run 0
says '^attend: attention in all its forms'
says 'help VERB'
grep -oE "^  $ATTEND .*[^ ]  " "$work/out" | sed 's/  *$//' >"$work/commands"
[[ $(wc -l <"$work/commands") == 5 ]] || fail "not five commands: $(cat "$work/out")"
[[ ! -s $work/err ]] || fail "noise: $(cat "$work/err")"

# Help and version, in all spellings.
run 0 help
says '^Usage: attend VERB'
says '^  generate +continue|^  generate +[a-z]'
cp "$work/out" "$work/help"
for word in -h --help '-?'; do
  run 0 "$word"
  cmp -s "$work/out" "$work/help" || fail "$word is not help"
done
run 0 view --help
cp "$work/out" "$work/help"
run 0 help view
cmp -s "$work/out" "$work/help" || fail "help view is not view --help"
run 0 view -h
cmp -s "$work/out" "$work/help" || fail "view -h is not view --help"
run 0 help eval --rouge
says -- '--baseline'
for word in -v -V --version; do
  run 0 "$word"
  says '^attend [0-9]+\.[0-9]+\.[0-9]+$'
done
run 0 version
says '^attend [0-9]'

# Names that are nearly right, and others.
complains 2 'no verb "expalin": did you mean "explain"' expalin
complains 2 'did you mean "view"' veiw
complains 2 'did you mean "view"' help veiw
complains 2 'did you mean "summarize"' summarise
complains 2 'did you mean "generate"' chat
complains 2 'no verb "The": attend help lists them' The dog ran
complains 2 'no option --json before a verb' --json version
complains 2 'attend view has no option --veiw: did you mean --view' view --veiw model
complains 2 'did you mean --prompt' generate --promt x
complains 2 'did you mean --temp\?' generate --temperature 1
complains 2 'has no option -model: did you mean --model' generate -model x
complains 2 'has no option --xyzzy: attend generate --help lists them' generate --xyzzy
complains 2 'write -- before a text' generate '-5 degrees is'
[[ $ATTEND_PULL == OFF ]] || complains 2 'write hf:gpt2' pull gpt2

without_tokenizers generate "Once upon a time"

# The five commands; view serves until it is ended.
grep -v " view " "$work/commands" >"$work/four.sh"
bash -e "$work/four.sh" >"$work/out" 2>"$work/err" || fail "a first command fails: $(cat "$work/err")"
[[ $ATTEND_VIEW == OFF ]] || {
  serve "The dog sitting in the car"
  end_server
}

# The bundled model, which is named.
ships() { # ships MODEL ARGUMENT...
  run 0 "${@:2}"
  grep -qx "attend: model $1 (--model names another)" "$work/err" ||
    fail "attend ${*:2} does not name its model: $(cat "$work/err")"
}
ships attend:gutenberg generate "Once upon a time" -n 5
cp "$work/out" "$work/text"
run 0 generate attend:gutenberg --prompt "Once upon a time" -n 5
cmp -s "$work/out" "$work/text" || fail "--prompt is another text"
[[ ! -s $work/err ]] || fail "noise: $(cat "$work/err")"
run 0 generate -m attend:gutenberg "Once upon a time" -n 5
cmp -s "$work/out" "$work/text" || fail "--model is another text"
ships attend:gutenberg tokenize "The dog ran"
says '^ +0 +[0-9]+ +The '
cp "$work/out" "$work/text"
printf 'The dog ran' >"$work/story.txt"
ships attend:gutenberg tokenize --file "$work/story.txt"
cmp -s "$work/out" "$work/text" || fail "tokenize --file"
ships attend:gutenberg eval "$work/story.txt"
says 'story.txt +4 '
ships attend:gutenberg compare "The dog ran" --form softmax --form elu
ships attend:gutenberg compare --text "The dog ran" --form softmax --form elu
ships attend:gutenberg show
says '^attend:gutenberg$'
ships attend:summarizer summarize "$work/story.txt" --tokens 5

# A word that looks like a model is none; --model makes it a text.
for verb in generate tokenize embed fill compare; do
  complains 1 'no folder gpt2: for the model of the hub write hf:gpt2' $verb gpt2
  complains 1 'hf:bert-base-uncased' $verb bert-base-uncased "a text"
  complains 2 "story.txt is a file: attend $verb (<|--file) .* reads it" $verb "$work/story.txt"
done
complains 1 'hf:gpt2' eval gpt2 "$work/story.txt"
complains 1 'hf:gpt2' show gpt2
for verb in generate eval "compare --form elu"; do
  # shellcheck disable=SC2086
  complains 1 'there is no file no/such.txt' $verb no/such.txt
done
for verb in eval summarize; do
  complains 1 'no file "It was late": attend .* reads a text from the standard input' $verb "It was late"
done
run 0 summarize attend:summarizer "$work/story.txt" --tokens 5
[[ ! -s $work/err ]] || fail "noise: $(cat "$work/err")"
run 0 tokenize -m attend:gutenberg gpt2
complains 1 'no model .* embeds texts: run attend pull hf:' embed "a cat" "a dog"
complains 1 'no model .* fills masks: run attend pull hf:' fill "a [MASK]"

# Pulled models that fit are found: the masked model for fill, an encoder for embed.
pull_as() { # pull_as FAMILY NAME
  local at=$work/hub/models--${2/\//--} commit=0123456789abcdef0123456789abcdef01234567
  with_words "$1"
  mkdir -p "$at/snapshots" "$at/refs"
  mv "$work/$1" "$at/snapshots/$commit"
  echo $commit >"$at/refs/main"
}
export HF_HUB_CACHE=$work/hub
pull_as gpt2 a/decoder
complains 1 'no model .* fills masks' fill "a [MASK]"
pull_as bert an/encoder
ships hf:an/encoder fill "the cat [MASK] on the mat"
ships hf:an/encoder embed "the cat" "the mat"

printf 'abc\351d\n' >"$work/latin"

# Two texts are for an encoder; a decoder refuses the second.
[[ $ATTEND_VIEW == OFF ]] || {
  ships hf:an/encoder view --terminal "the cat" "the mat"
  ships attend:summarizer view --terminal --role cross --layer 0 "a tool" "a tool"
  ships attend:gutenberg view --terminal "the cat"
  complains 2 'is a decoder and reads one text: leave "the mat" away' \
    view --terminal attend:gutenberg "the cat" "the mat"
  complains 2 'is a decoder and reads one text' \
    view -m attend:gutenberg --against second=x --terminal "a cat"
  complains 2 '--layer=6: the decoder has layers 0 to 5' view -m attend:gutenberg --layer 6 "a cat"
  complains 2 '--head=4: the decoder has heads 0 to 3' view -m attend:gutenberg --head 1,4 "a cat"
  complains 2 "story.txt is a file: attend view --file" view "$work/story.txt"
  complains 1 'hf:gpt2' view gpt2
  complains 1 'byte 3 of .* is not UTF-8' view -m attend:gutenberg --file "$work/latin" --terminal
}

# What is not UTF-8 is refused by every verb, with the place.
for verb in generate tokenize eval compare summarize embed fill "fill --json" "generate --lines" \
  "summarize --lines" "summarize --extract" "tokenize --decode"; do
  got=0
  # shellcheck disable=SC2086
  "$ATTEND" $verb <"$work/latin" >"$work/out" 2>"$work/err" || got=$?
  ((got == 1)) || fail "attend $verb takes latin1: exit $got"
  grep -q 'byte 3 of .* is not UTF-8: convert the text first, as with iconv' "$work/err" ||
    fail "attend $verb: $(cat "$work/err")"
done
latin=$(cat "$work/latin")
for verb in generate "generate --prompt" tokenize embed fill compare "compare --text"; do
  # shellcheck disable=SC2086
  complains 2 'byte 3 of .* is not UTF-8' $verb "$latin"
done
complains 1 'byte 3 of .*latin is not UTF-8' tokenize --train "$work/latin" --out "$work/tokenizer"
printf 'a b\tc\351d\n' >"$work/latin.tsv"
run 1 eval --rouge --data "$work/latin.tsv" --baseline lead
grep -q 'byte 5 of line 1 of .*latin.tsv is not UTF-8' "$work/err" || fail "tsv: $(cat "$work/err")"
run 1 train --data "$work/latin" --out "$work/run"
grep -q 'byte 3 of .*latin is not UTF-8' "$work/err" || fail "train: $(cat "$work/err")"

# A verb that waits for the terminal says so.
if command -v script >/dev/null; then
  for verb in tokenize eval compare summarize embed fill; do
    printf 'a cat\n\004' | timeout 60 script -qec "$ATTEND $verb" "$work/typed" >/dev/null || true
    grep -q 'Ctrl-D on a line of its own ends' "$work/typed" ||
      fail "attend $verb waits in silence: $(cat "$work/typed")"
  done
fi
