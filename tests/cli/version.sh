#!/usr/bin/env bash
# attend version, for people and for programs.
. "$(dirname "$0")/lib.bash"

run 0 version
says '^attend [0-9.]+$'
says '^instruction set +[a-z0-9]+ \(run here: scalar'
says '^threads +2$'
run 0 version --threads 3 --isa scalar --json
is_json 1
fields version isa isas compiled threads compiler
says '"isa": "scalar"'
says '"threads": 3'
ATTEND_ISA=scalar ATTEND_NUM_THREADS=5 run 0 version
says 'instruction set +scalar '
says 'threads +5'
