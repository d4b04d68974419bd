#!/usr/bin/env bash
# tools/setup refuses a Node.js that is older than viewer/package.json allows.
. "$(dirname "$0")/lib.bash"

# Nothing is missing here but a newer Node.
mkdir "$work/bin"
printf '#!/bin/sh\necho installed\n' >"$work/bin/dpkg-query"
# shellcheck disable=SC2016 # the script's
printf '#!/bin/sh\necho "$NODE"\n' >"$work/bin/node"
printf '#!/bin/sh\n' | tee "$work/bin/npm" >"$work/bin/apt-get"
chmod +x "$work/bin/"*

# setup VERSION: tools/setup where Node.js is VERSION; its output is in $work/messages
setup() {
  NODE=$1 PATH=$work/bin:$PATH tools/setup test >"$work/messages" 2>&1
}

for version in v18.0.0 v18.20.4 v20.20.2 v100.1.0; do
  setup "$version" || fail "$version is refused: $(cat "$work/messages")"
  [[ ! -s $work/messages ]] || fail "$version: it says: $(cat "$work/messages")"
done
for version in v4.9.1 v16.20.2 v17.99.0; do
  ! setup "$version" || fail "$version is taken"
  grep -q "Node.js ${version#v}.*at least 18.*apt-get install npm" "$work/messages" ||
    fail "$version: $(cat "$work/messages")"
done
