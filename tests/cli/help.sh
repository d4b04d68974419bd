#!/usr/bin/env bash
# Help lists the verbs; mistakes in the command line are usage errors.
. "$(dirname "$0")/lib.bash"

run 0 --help
for verb in explain verify bench compare generate summarize train eval show \
  tokenize embed fill pull version; do says "^  $verb +[a-z]"; done
! grep -q '^  demo' "$work/out" || fail "demo is listed"
for verb in explain verify bench compare generate summarize train eval show \
  tokenize embed fill pull version; do
  run 0 $verb --help
  says "Usage: attend $verb"
  says "--json"
done

complains 2 'no verb "expalin": did you mean "explain"' expalin
run 2
grep -q 'name a verb' "$work/err" || fail "no verb: $(cat "$work/err")"
run 2 verify
run 2 verify --all --invariance
run 2 verify --all softmax:n4d4
run 2 explain
run 2 bench
run 2 bench --out x softmax:n4d4
run 2 bench crossover
run 2 bench crossover elu favor
run 2 bench crossover elu --engine linear
run 2 bench --dim 8 softmax:n4d4
run 2 verify --all --engine linear
run 2 bench --repeat 0 softmax:n4d4
grep -q -- '--repeat takes a number from 1' "$work/err" || fail "--repeat 0"
run 2 verify --threads two softmax:n4d4
run 2 verify --nonsense
run 0 --version
says '^attend [0-9]+\.[0-9]+\.[0-9]+$'
