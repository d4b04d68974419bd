#!/usr/bin/env bash
# The page of `attend view` in a browser: tests/browser/browser.sh PROGRAM FOLDER [NAME]...
#
#   PROGRAM  the program
#   FOLDER   has node_modules with what viewer/package.json names, such as the
#            page/ of a build
#   NAME     of a test beside this file, without .mjs; all but long without any
#
# One line a check, ok or FAILED with a sentence. CHROMIUM names another browser.
set -euo pipefail
cd "$(dirname "$0")"

fail() {
  echo "FAILED: $*"
  exit 1
}

(($# >= 2)) || fail "usage: tests/browser/browser.sh PROGRAM FOLDER [NAME]..."
ATTEND=$(realpath "$1")
PACKAGES=$(realpath "$2")
CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
shift 2
[[ -x $ATTEND ]] || fail "$ATTEND is no program: build it first"
[[ -n $CHROMIUM ]] || fail "chromium is missing: install it (tools/setup test)"
command -v node >/dev/null || fail "node is missing: install it (tools/setup test)"
for package in playwright-core axe-core; do
  [[ -d $PACKAGES/node_modules/$package ]] ||
    fail "$PACKAGES has no $package: it is the page/ of a build, where npm put" \
      "what viewer/package.json names"
done
(($# > 0)) || set -- access still numbers predictions hands views beside alone steps tensors design

# What the browser and the program write goes here, and goes away.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export ATTEND PACKAGES CHROMIUM OMP_NUM_THREADS=2
unset ATTEND_ISA ATTEND_NUM_THREADS

# one NAME: exits as the test does; what it says is in $work/NAME.out
one() {
  mkdir "$work/$1"
  WORK=$work/$1 XDG_CACHE_HOME=$work/$1/cache XDG_CONFIG_HOME=$work/$1/config \
    node "$1.mjs" >"$work/$1.out" 2>&1
}

# Two at a time: a test waits for its browser more than it works.
failed=0
running=()
started=()
finish_first() {
  wait "${running[0]}" || failed=1
  echo "== ${started[0]}"
  cat "$work/${started[0]}.out"
  running=("${running[@]:1}")
  started=("${started[@]:1}")
}
for name in "$@"; do
  ((${#running[@]} < 2)) || finish_first
  one "$name" &
  running+=($!)
  started+=("$name")
done
while ((${#running[@]} > 0)); do finish_first; done
exit $failed
