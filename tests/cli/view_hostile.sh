#!/usr/bin/env bash
# The server of attend view, attacked: 25 clients that ask properly get the right
# bytes while 25 others do what must not be done, and nothing is left of these.
. "$(dirname "$0")/lib.bash"

export ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=16
export PYTHONDONTWRITEBYTECODE=1
python3 "$(dirname "$0")/view_hostile.py" \
  "$(dirname "$ATTEND")/tests/view_echo" || fail "see above"
