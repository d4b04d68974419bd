#!/usr/bin/env bash
# Control characters from files and models never reach a terminal: tensor names,
# config.json, tokens, generated text. What goes into a pipe is not changed.
source "$(dirname "$0")/lib.bash"
without_tokenizers tokenize "$models/gpt2" x
esc=$'\e' csi=$'\xc2\x9b'

# no_controls WHAT: nothing of what was printed steers a terminal.
no_controls() {
  ! grep -q "[$esc]" "$work/out" "$work/err" || fail "$1: ESC was printed"
  ! grep -qF "$csi" "$work/out" "$work/err" || fail "$1: a C1 control was printed"
}

# A tensor called ESC[31mred, with a C1 control besides.
mkdir "$work/name"
cp "$models/gpt2/config.json" "$work/name"
file=$models/gpt2/model.safetensors
head=$(($(od -An -tu8 -N8 "$file")))
name="\\u001b[31mred\\u009b1m"
{
  head -c $((head + 8)) "$file" | tail -c "$head" | sed 's/} *$//'
  printf '%s' ", \"$name\": {\"dtype\": \"F32\", \"shape\": [0]," \
    ' "data_offsets": [0, 0]}}'
} >"$work/header"
{
  bytes_of "$(stat -c %s "$work/header")"
  cat "$work/header"
  tail -c +$((head + 9)) "$file"
} >"$work/name/model.safetensors"
run 0 show "$work/name" --tensors
no_controls "show --tensors"
says '\\x1b\[31mred\\xc2\\x9b1m'
run 0 show "$work/name" --tensors --json
no_controls "show --tensors --json"
says '\\u001b\[31mred'

# The same name where the tensor is refused.
sed 's/"shape": \[0\]/"shape": [7]/' "$work/header" >"$work/other"
{
  bytes_of "$(stat -c %s "$work/other")"
  cat "$work/other"
  tail -c +$((head + 9)) "$file"
} >"$work/name/model.safetensors"
complains 1 'tensor "\\x1b\[31mred.* has data_offsets' show "$work/name"
no_controls "a refused tensor"

# A model_type with ESC in it.
sed 's/"model_type": "[^"]*"/"model_type": "gpt\\u001b[31m2"/' \
  "$models/gpt2/config.json" >"$work/name/config.json"
complains 1 'models of type "gpt\\x1b\[31m2"' show "$work/name"
no_controls "model_type"

# Tokens that hold ESC: printed for a terminal, bytes for a pipe. All 211 words
# of the vocabulary have one, so that any continuation has.
mkdir "$work/says"
cp "$models/gpt2/config.json" "$models/gpt2/model.safetensors" "$work/says"
{
  printf '%s\n' '[PAD]' '[UNK]' '[CLS]' '[SEP]' '[MASK]' w
  seq -f "w${esc}[31m%g" 205
} >"$work/says/vocab.txt"
run 0 generate "$work/says" -n 4 --prompt w
grep -q "$esc" "$work/out" || fail "generate changes what a pipe is given"
python3 - "$ATTEND" "$work/says" >"$work/out" 2>"$work/err" <<'END' || fail "$(cat "$work/err")"
import os, pty, sys
child, fd = pty.fork()
if child == 0:
    os.execv(sys.argv[1], [sys.argv[1], "generate", sys.argv[2], "-n", "4", "--prompt", "w"])
out = b""
try:
    while piece := os.read(fd, 65536):
        out += piece
except OSError:
    pass
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
# the line of progress is the program's own: ESC [ K
sys.stdout.buffer.write(out.replace(b"\x1b[K", b""))
sys.exit(code)
END
no_controls "generate on a terminal"
says '\\x1b'
run 0 tokenize "$work/says" "w"
no_controls tokenize
