#!/usr/bin/env bash
# The program starts where address space is limited: OpenBLAS, which reserves gigabytes
# when it is loaded, is opened by what compares with it alone.
. "$(dirname "$0")/lib.bash"

# limited ARGUMENT...: ends with 0 within 300 MB of addresses; a minute is many times enough
limited() {
  local got=0
  (ulimit -v 300000 && exec timeout 60 "$ATTEND" "$@") >"$work/out" 2>"$work/err" || got=$?
  ((got == 0)) || fail "attend $* ends with $got (124: after a minute): $(cat "$work/err")"
}

limited version
limited explain softmax:n64d64
limited verify softmax:n64d64
[[ $ATTEND_TEXT == OFF ]] || limited tokenize "$models/stories260K" "Once upon a time"
limited show "$models/gpt2"
