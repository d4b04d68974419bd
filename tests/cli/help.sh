#!/usr/bin/env bash
# Help lists the verbs; mistakes in the command line are usage errors.
. "$(dirname "$0")/lib.bash"

run 0 --help
verbs=(view design study explain verify bench compare intervene attribute generate summarize train
  eval show tokenize embed fill pull version)
for verb in "${verbs[@]}"; do says "^  $verb +[a-z]"; done
! grep -q '^  demo' "$work/out" || fail "demo is listed"
for verb in "${verbs[@]}"; do
  run 0 "$verb" --help
  says "Usage: attend $verb"
  says "--json"
done

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

# Every option of a verb is in the man page, at the verb or among all, and says what
# it does as the others do: with a capital.
for what in "${verbs[@]}" "compare --runs" "eval --rouge" "tokenize --train" \
  "study scale" "study norms"; do
  read -ra words <<<"$what"
  run 0 "${words[@]}" --help
  cp "$work/out" "$work/help $what"
done
python3 - "$work" docs/attend.1.scd <<'END' || fail "help and man page differ"
import pathlib, re, sys
man = open(sys.argv[2]).read()
shared = man[man.index("# OPTIONS"):man.index("# MODELS")]
at = {}
for part in re.split(r"^(?=\*[a-z])", man[man.index("# VERBS"):man.index("# OPTIONS")], flags=re.M):
    name = re.match(r"\*([a-z]+)", part)
    if name: at[name[1]] = at.get(name[1], "") + part
at["eval"] += at["summarize"] # which it says
# these begin with a value, or with a letter of a formula
values = "task family optimizer schedule save-as kind view width".split()
wrong = []
for file in pathlib.Path(sys.argv[1]).glob("help *"):
    verb = file.name.split()[1]
    text = file.read_text().split("-?, --help")[0]
    option = r"^ {2,6}(?:-\w, )?--([a-z0-9-]+)(?:\[?=\S+)? +(\S)"
    known = at[verb] + shared + (text if file.name.startswith("help study ") else "")
    for name, says in re.findall(option, text, flags=re.M):
        if not re.search(r"(?<![\w-])--" + name + r"(?![\w-])", known):
            wrong.append(f"{verb} --{name} is not in the man page")
        if says.islower() and name not in values:
            wrong.append(f"{verb} --{name} begins with a small letter")
print("\n".join(wrong))
sys.exit(bool(wrong))
END
