#!/usr/bin/env bash
# The real attend view before a crowd: 25 clients get right answers while 25
# others ask nonsense, break off or speak no HTTP.
. "$(dirname "$0")/lib.bash"
without_view

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
export PYTHONDONTWRITEBYTECODE=1
"$ATTEND" view --model "$models/gpt2" "1 2 3" >"$work/served" 2>"$work/err" &
server=$!
for _ in $(seq 200); do
  address=$(grep -o 'http://[^ ]*' "$work/served" || true)
  [[ -z $address ]] || break
  sleep 0.1
done
[[ -n $address ]] || fail "no address: $(cat "$work/err")"
python3 "$(dirname "$0")/view_crowd.py" "$address" "$server" ||
  fail "see above; the program says: $(cat "$work/err")"
kill -INT "$server"
code=0
wait "$server" || code=$?
((code == 0)) || fail "the server ends with $code: $(cat "$work/err")"
