#!/usr/bin/env bash
# The real attend view with 50 clients at once: 25 get right answers while 25 others
# send nonsense, break off or speak no HTTP.
. "$(dirname "$0")/lib.bash"
without_view

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
export PYTHONDONTWRITEBYTECODE=1
serve --model "$models/gpt2" "1 2 3"
python3 "$(dirname "$0")/view_clients.py" "$address" "$server" ||
  fail "see above; the program says: $(cat "$work/err")"
end_server
