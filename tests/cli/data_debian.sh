#!/usr/bin/env bash
# tools/data/debian-descriptions: pairs from a little archive, ready and through apt.
. "$(dirname "$0")/lib.bash"
script=tools/data/debian-descriptions
archive=$work/archive/dists/tiny/main
mkdir -p "$archive/i18n" "$archive/binary-amd64" "$work/lists"

# words N WORD: WORD N times, so that a text has the length that is asked for.
words() {
  local i
  for ((i = 0; i < $1; i++)); do printf ' %s' "$2"; done
}
# package NAME SOURCE SYNOPSIS: an entry in both files; the description's lines are
# the standard input. SOURCE - is a package for other machines alone.
package() {
  if [[ $2 != - ]]; then
    printf 'Package: %s\nSource: %s\nArchitecture: amd64\n' "$1" "$2"
    printf 'Version: 1\nDescription: no text\n\n'
  fi >>"$archive/binary-amd64/Packages"
  {
    printf 'Package: %s\nDescription-md5: %032d\nDescription-en: %s\n' "$1" \
      "${#3}" "$3"
    cat
    printf '\n'
  } >>"$archive/i18n/Translation-en"
}
# has FILE PACKAGE...: the packages of one file, all and in order.
has() {
  local file=$1
  shift
  diff <(sed 's/^{"package": "\([^"]*\)".*/\1/' "$work/out/$file.jsonl") \
    <(printf '%s\n' "$@") >"$work/diff" || fail "$file: $(cat "$work/diff")"
}

# SHA-1 sends the names alpha and omicron to test, rho to valid, the others to train.
package kiwi 'kiwi (1:2.0)' 'bird of some size' <<TEXT
 One line, and  "another"
 that ends\\ here.
 .
 A list:
  * first,  and
    second$(words 20 item)
TEXT
package alpha alpha 'letter that comes first' <<TEXT
 This letter$(words 24 begins).
TEXT
package alpha-doc alpha 'letter that comes first - manual' <<TEXT
 This letter$(words 24 begins).
 .
 The manual of it, which nobody reads.
TEXT
package beta beta 'letter that comes second' <<TEXT
 Something else stands here.
 .
 THIS letter, 1$(words 24 begins)!
TEXT
package rho rho 'letter for radii' <<<" Round$(words 24 and)"
package lone - 'built for other machines' <<<" Strange$(words 24 but)"
package copied copied 'Letter That Comes First' <<<" Said$(words 24 before)"
package shown shown 'synopsis that is new' <<TEXT
 ROUND
 $(words 24 and)
TEXT
package short short 'synopsis of three words' <<<" Short$(words 23 of)"
package long long 'synopsis of five words here' <<<" Long$(words 200 of)"
package terse terse 'two words' <<<" Terse$(words 30 of)"
package wordy wordy "wordy$(words 15 so)" <<<" Wordy$(words 30 of)"

cp "$archive/binary-amd64/Packages" "$work/lists/a_Packages"
gzip -c "$archive/i18n/Translation-en" >"$work/lists/a_Translation-en.gz"
# an archive whose name comes later has nothing new to say of a package
printf 'Package: rho\nDescription-en: a letter that moved\n Later%s\n' \
  "$(words 30 on)" >"$work/lists/b_Translation-en"
LISTS=$work/lists $script "$work/out" >"$work/table"

has test alpha alpha-doc
has valid rho
has train kiwi lone
has near beta
items=$(words 20 item)
diff "$work/out/train.jsonl" - >"$work/diff" <<TEXT || fail "train: $(cat "$work/diff")"
{"package": "kiwi", "source": "kiwi", "document": "One line, and \"another\" that ends\\\\ here.\n\nA list:\n* first,  and\nsecond$items", "summary": "bird of some size"}
{"package": "lone", "source": "lone", "document": "Strange$(words 24 but)", "summary": "built for other machines"}
TEXT
grep -Eq '^test +2 +1 +29\.' "$work/table" || fail "table: $(cat "$work/table")"

# ---- what it says when it cannot ------------------------------------------------

refuses() {
  local code=$1 pattern=$2 got=0
  shift 2
  "$@" >"$work/messages" 2>&1 || got=$?
  ((got == code)) || fail "$*: exits with $got, not $code: $(cat "$work/messages")"
  tail -n 1 "$work/messages" | grep -Eq "$pattern" || fail "$*: $(cat "$work/messages")"
}
refuses 2 usage $script
mkdir "$work/empty"
refuses 1 'has no file \*_Packages' env LISTS="$work/empty" $script "$work/out"
refuses 1 'no folder' env LISTS="$work/nowhere" $script "$work/out"
refuses 1 'cannot be made' $script "$work/table/out"
has test alpha alpha-doc # and the files of before are still there

# ---- through apt ----------------------------------------------------------------

command -v apt-get >/dev/null || exit 0
{
  printf 'Suite: tiny\nCodename: tiny\nArchitectures: amd64\nComponents: main\n'
  printf 'Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n'
  (cd "$archive/.." && sha256sum main/*/* | while read -r sum file; do
    printf ' %s %s %s\n' "$sum" "$(stat -c %s "$file")" "$file"
  done)
} >"$archive/../Release"
echo "deb [trusted=yes arch=amd64] copy:$work/archive tiny main" >"$work/sources.list"
chmod 755 "$work"
SOURCES=$work/sources.list $script "$work/apt" >"$work/table" 2>"$work/messages" ||
  fail "apt: $(cat "$work/messages")"
for file in train valid test near; do
  cmp "$work/out/$file.jsonl" "$work/apt/$file.jsonl" || fail "apt gives another $file"
done
# what was fetched is kept, without the archive too; without both it says so
rm -r "$work/archive"
SOURCES=$work/sources.list $script "$work/apt" >"$work/again" 2>&1
cmp "$work/table" "$work/again" || fail "a second run differs"
rm -r "$work/apt/index"
refuses 1 'could not be fetched: [EW]:' env SOURCES="$work/sources.list" $script "$work/apt"
