#!/usr/bin/env bash
# tools/data/gutenberg.awk: what it makes of little books.
. "$(dirname "$0")/lib.bash"

# clean BOOK: the standard input; $work/train and $work/valid.
clean() {
  rm -f "$work/train" "$work/valid"
  LC_ALL=C awk -f tools/data/gutenberg.awk -v book="$1" -v train="$work/train" \
    -v valid="$work/valid" >"$work/counts"
}
gives() {
  diff - "$work/train" >"$work/diff" || fail "$1: $(cat "$work/diff")"
}

# Title pages, numbers, notes and stars go; lines are joined, verse is not;
# emphasis is quiet; the end is held out.
{
  printf '[A Book by Nobody 1800]\n\nCONTENTS\n\n'
  printf 'CHAPTER I. The _First_\n\nIt was a VERY long--\nand good-\nnatured day,  said\nBrown.  '
  printf 'DEAR BROWN!\n\n    A line of verse,\n      And one more:\n\n'
  printf '  *    *    *\n\n[Illustration]\n\nOn they went, very far.\n\n'
  printf 'CHAPTER II. The Second\n\nThe last words, dear Brown.\n\nTHE END\n'
} | clean carroll-test
gives carroll <<'TEXT'
The First

It was a very long--and good-natured day, said Brown. Dear Brown!

A line of verse,
And one more:

On they went, very far.
<|endoftext|>
TEXT
[[ $(cat "$work/valid") == $'The Second\n\nThe last words, dear Brown.\n<|endoftext|>' ]] ||
  fail "held out: $(cat "$work/valid")"
[[ $(cat "$work/counts") == "1 "* ]] || fail "counts: $(cat "$work/counts")"

# Verses, wherever their numbers stand; chapters; titles of books; lists.
{
  printf 'The First Book\n\n1:1 In the beginning\nwas a word. 1:2 And then\nanother;\n\n'
  printf 'and more of it.\n\n2:1 Then others.\n\nThe Second Book\n\n1:1 Again.\n'
  seq -f '3:%g A verse of some length that is here to be held out.' 3
} | clean bible-test
gives bible <<'TEXT'
In the beginning was a word.
And then another; and more of it.
<|endoftext|>
Then others.
<|endoftext|>
Again.
<|endoftext|>
TEXT

printf '[x]\n\n[BOOK I]\n\n}  A Song\n\n     1\nA line that is too\n    long,\nand another.\n' |
  clean whitman-test
gives whitman <<'TEXT'
A Song

A line that is too long,
and another.
<|endoftext|>
TEXT
