#!/usr/bin/env bash
# The tutorial: it builds; its links lead somewhere; every study is linked; its
# commands and programs do what the pages say; the course documents' questions have the answers
# that documents.md gives.
. "$(dirname "$0")/lib.bash"
build=$(cd "$(dirname "$ATTEND")" && pwd)
export ATTEND=$build/${ATTEND##*/} ATTEND_MODELS=$PWD/models

run 0 study --json
sed -n 's/.*"topic": "\([^"]*\)".*/\1/p' "$work/out" >"$work/topics"
python3 tests/cli/book_pages.py links docs/book "$work/topics" || fail "links"

# The rest is the program's own numbers, which the normal step checks.
if [[ ${ATTEND_TEST_LIGHT:-0} != 0 || $ATTEND_TEXT == OFF || $ATTEND_VIEW == OFF ]]; then
  exit 0
fi

tools/book --quick "$work/book" >"$work/out" 2>&1 || {
  cat "$work/out"
  fail "tools/book"
}
python3 tests/cli/book_pages.py built "$work/book" || fail "the built book"

# What the pages call is what was built here, warnings and all.
mkdir "$work/bin" "$work/pages"
printf '#!/bin/sh\nexec "%s" "$@"\n' "$ATTEND" >"$work/bin/attend"
printf '#!/bin/sh\nexec %s -Wall -Wextra -Werror "$@"\n' \
  "$(command -v cc)" >"$work/bin/cc"
chmod +x "$work/bin/attend" "$work/bin/cc"
printf '%s\n' 'Name: attend' 'Description: as built' 'Version: 0' \
  "Libs: -L$build -Wl,-rpath,$build -lattend" "Cflags: -I$PWD/include" \
  >"$work/attend.pc"
printf '%s\n' 'Name: attend-lab' 'Description: as built' 'Version: 0' \
  'Requires: attend' "Libs: -L$build -lattend-lab" >"$work/attend-lab.pc"
export PATH=$work/bin:$PATH PKG_CONFIG_PATH=$work
run 0 explain softmax:n64d16 # measures the machine, once, and says so
python3 tests/cli/book_pages.py commands docs/book "$work/pages" || fail "commands"
