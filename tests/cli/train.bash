# What the tests of attend train share: texts, settings of models that learn in no
# time, comparisons of runs.
stories=$models/stories260K

awk 'BEGIN {
  split("Tom Anna Ben the-dog the-cat", who, " ")
  split("saw took lost found liked", did, " ")
  split("red old big small new", how, " ")
  split("boat ball hat book stone", what, " ")
  for (i = 0; i < 300; i++) {
    line = who[i % 5 + 1] " " did[int(i / 3) % 5 + 1] " a " how[i * 7 % 5 + 1] \
      " " what[int(i / 7) % 5 + 1] "."
    gsub("-", " ", line)
    print line
  }
}' >"$work/text.txt"
awk 'NR <= 60 { print $1 " " $2 "\t" $4 " " $5 }' "$work/text.txt" >"$work/pairs.tsv"
awk -F '\t' '{ printf "{\"source\": \"%s\", \"target\": \"%s\"}\n", $1, $2 }' \
  "$work/pairs.tsv" >"$work/pairs.jsonl"

tiny=(--width 16 --heads 2 --layers 1 --length 16 --batch 2)
short=(--steps 6 --save-every 3 --log-every 2)
brief=(--steps 2 --save-every 2)

# learn OUT ARGUMENT...: a run that ends well.
learn() {
  local out=$1
  shift
  run 0 train --out "$work/$out" "$@"
}

# untimed LOG: what depends neither on the clock nor on the number of threads.
untimed() {
  sed -E 's/, "(seconds|tokens_per_s|step_s|bytes)": [^,}]*//g' "$1"
}

# same_run A B: the last steps and the logs, to the bit.
same_run() {
  local file
  [[ $(readlink "$work/$1/last") == $(readlink "$work/$2/last") ]] ||
    fail "$1 and $2 end at other steps"
  for file in model.safetensors training.safetensors; do
    cmp -s "$work/$1/last/$file" "$work/$2/last/$file" ||
      fail "$1 and $2 have another $file"
  done
  diff <(untimed "$work/$1/log.jsonl") <(untimed "$work/$2/log.jsonl") ||
    fail "$1 and $2 have other logs"
  [[ $(readlink "$work/$1/best") == $(readlink "$work/$2/best") ]] ||
    fail "$1 and $2 have another best step"
}

# no_leftovers OUT: nothing half done lies there.
no_leftovers() {
  local left
  left=$(find "$work/$1" -name '*.part*' -o -name '*.new' -o -name '*.old')
  [[ -z $left ]] || fail "left behind: $left"
}

# field NAME: of the first row of what was printed as JSON.
field() { sed -n "2s/.*\"$1\": \([^,}]*\).*/\1/p" "$work/out"; }
