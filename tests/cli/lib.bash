# What the tests of the program share. ATTEND is the program; ATTEND_TEXT,
# ATTEND_PULL and ATTEND_VIEW say whether it was built with tokenizers, pull and
# the server of view, ON or OFF.
set -euo pipefail
: "${ATTEND:?set ATTEND to the program}" "${ATTEND_TEXT:=ON}" "${ATTEND_PULL:=ON}"
: "${ATTEND_VIEW:=ON}"
models=${ATTEND_GOLDEN:-tests/golden}/models

work=$(mktemp -d)
server= # what a test that fails leaves running
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache
unset ATTEND_ISA ATTEND_NUM_THREADS
export OMP_NUM_THREADS=2

fail() {
  echo "FAILED: $*"
  exit 1
}

# run CODE ARGUMENT...: the program must exit with CODE; $work/out, $work/err.
run() {
  local want=$1 got=0
  shift
  "$ATTEND" "$@" >"$work/out" 2>"$work/err" || got=$?
  if ((got != want)); then
    cat "$work/out" "$work/err"
    fail "attend $* exits with $got, not $want"
  fi
}

# says PATTERN: in what the program wrote.
says() { grep -Eq -- "$1" "$work/out" || fail "stdout does not say: $1"; }

# complains CODE PATTERN ARGUMENT...: one sentence on stderr, nothing else.
complains() {
  local code=$1 pattern=$2
  shift 2
  run "$code" "$@"
  [[ $(wc -l <"$work/err") == 1 ]] ||
    fail "attend $* does not complain in one line: $(cat "$work/err")"
  grep -q '^attend: ' "$work/err" || fail "attend $*: no name in the complaint"
  grep -Eq -- "$pattern" "$work/err" ||
    fail "attend $*: \"$(cat "$work/err")\" does not say: $pattern"
  [[ ! -s $work/out ]] || fail "attend $*: stdout is not empty"
}

# without_tokenizers ARGUMENT...: the test of a build that has none ends here,
# where attend ARGUMENT... says so.
without_tokenizers() {
  [[ $ATTEND_TEXT == OFF ]] || return 0
  complains 1 'this build has no tokenizers' "$@"
  exit 0
}

# without_pull: the same for pull, of either kind.
without_pull() {
  [[ $ATTEND_PULL == OFF ]] || return 0
  complains 1 'this build has no pull' pull --offline hf:no/body
  complains 1 'this build has no pull' pull hf:no/body
  complains 1 'this build has no pull' pull npm:nobody
  exit 0
}

# without_view: the same for the pages and pictures of view.
without_view() {
  [[ $ATTEND_VIEW == OFF ]] || return 0
  complains 1 'this build has no server' view --model "$models/gpt2" "1 2 3"
  exit 0
}

# serve ARGUMENT...: attend view ARGUMENT... until end_server; $address is where.
# shellcheck disable=SC2034 # address is for the tests
serve() {
  : >"$work/served" # no address of the server before
  "$ATTEND" view "$@" >"$work/served" 2>"$work/err" &
  server=$!
  for _ in $(seq 200); do
    address=$(grep -o 'http://[^ ]*' "$work/served" || true)
    [[ -z $address ]] || return 0
    sleep 0.1
  done
  fail "no address: $(cat "$work/err")"
}
end_server() {
  local code=0 ended=$server
  server=
  kill -INT "$ended"
  wait "$ended" || code=$?
  ((code == 0)) || fail "the server ends with $code: $(cat "$work/err")"
}

# with_words FAMILY: $work/FAMILY, that model with a vocabulary of 211 words.
with_words() {
  mkdir "$work/$1"
  cp "$models/$1/config.json" "$models/$1/model.safetensors" "$work/$1"
  cp "$models/../words/vocab.txt" "$work/$1"
}

# bytes_of NUMBER: as 8 bytes, little-endian.
bytes_of() {
  local n=$1
  for _ in 1 2 3 4 5 6 7 8; do
    printf '%b' "\\x$(printf %x $((n & 255)))"
    n=$((n >> 8))
  done
}

# without_numbers FOLDER: every weight of its model becomes NaN.
without_numbers() {
  local file=$1/model.safetensors head size
  head=$(($(od -An -tu8 -N8 "$file") + 8))
  size=$(($(stat -Lc %s "$file") - head))
  { head -c "$head" "$file"; head -c "$size" /dev/zero | tr '\0' '\377'; } \
    >"$file.part"
  mv "$file.part" "$file"
}

# is_json ROWS: an array of flat objects, one a line, and so many of them.
is_json() {
  local string='"([^"\\]|\\.)*"' number='-?[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?'
  local value="($string|$number|true|false|null)"
  local member="$string: $value"
  [[ $(head -n 1 "$work/out") == "[" ]] || fail "JSON does not start with ["
  [[ $(tail -n 1 "$work/out") == "]" ]] || fail "JSON does not end with ]"
  local rows
  rows=$(sed '1d;$d' "$work/out" | grep -Ecx "  \{$member(, $member)*\},?") || true
  [[ $rows == "$1" ]] || fail "JSON has $rows good rows, not $1"
  [[ $(wc -l <"$work/out") == $((rows + 2)) ]] || fail "JSON has other lines"
  [[ $(grep -c '},$' "$work/out") == $((rows - 1)) ]] || fail "JSON's commas"
}

# fields NAME...: every row has them.
fields() {
  local name
  for name in "$@"; do
    [[ $(grep -c "\"$name\": " "$work/out") == $(($(wc -l <"$work/out") - 2)) ]] ||
      fail "a row has no field $name"
  done
}
