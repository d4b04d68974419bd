#!/usr/bin/env bash
# The real attend view before a crowd: 25 clients get right answers while 25
# others ask nonsense, break off or speak no HTTP.
. "$(dirname "$0")/lib.bash"
without_view

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
export PYTHONDONTWRITEBYTECODE=1
serve --model "$models/gpt2" "1 2 3"
python3 "$(dirname "$0")/view_crowd.py" "$address" "$server" ||
  fail "see above; the program says: $(cat "$work/err")"
end_server
