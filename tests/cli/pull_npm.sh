#!/usr/bin/env bash
# attend pull npm:..., by the real npm and a registry of our own.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/hub.bash"
golden=${ATTEND_GOLDEN:-tests/golden}/tokens

without_pull

mkdir -p "$world/npm" "$world/models" "$work/mini/model/1_Pooling" "$work/empty"
got=0
PATH=$work/empty "$ATTEND" pull npm:mini 2>"$work/err" || got=$?
((got == 1)) || fail "without npm it exits with $got"
grep -q '^attend: there is no npm .*: install npm' "$work/err" ||
  fail "without npm it says: $(cat "$work/err")"
command -v npm >/dev/null || fail "there is no npm: run tools/setup test"

# about NAME VERSION: a package's package.json
about() { printf '{"name": "%s", "version": "%s"}\n' "$1" "$2"; }

cp "$golden/bert-tokenizer.json" "$work/mini/model/tokenizer.json"
echo '{}' >"$work/mini/model/config.json"
echo '{}' >"$work/mini/model/1_Pooling/config.json"
printf '{"name": "@tests/mini", "version": "1.2.0", "files": ["model"], "scripts":
  {"prepack": "touch ran", "prepare": "touch ran"}}\n' \
  >"$work/mini/package.json"

start_hub
export npm_config_registry=http://127.0.0.1:$port/npm/
export npm_config_cache=$work/npm npm_config_update_notifier=false
export npm_config_fetch_retries=0 npm_config_audit=false
cache=$work/cache/attend/npm
switches

# ---- folders and tarballs --------------------------------------------------------

cd "$work"
npm pack --silent --ignore-scripts --pack-destination "$work" ./mini \
  >/dev/null 2>&1
[[ -e tests-mini-1.2.0.tgz ]] || fail "npm pack"
rm -f mini/ran # an old npm's
run 0 pull npm:./tests-mini-1.2.0.tgz
[[ $(cat "$work/out") == "$cache/@tests/mini/1.2.0/model" ]] ||
  fail "the path: $(cat "$work/out")"
[[ ! -s $work/err ]] || fail "a pull says: $(cat "$work/err")"
[[ -z $(find "$work" -name ran) ]] || fail "a package's script was run"
diff -r "$work/mini" "$cache/@tests/mini/1.2.0" || fail "not the same"
[[ ! -e $cache/.private ]] || fail "the private folder is left"
run 0 pull npm:tests-mini-1.2.0.tgz --to "$work/there/deep/"
[[ $(cat "$work/out") == "$work/there/deep/model" ]] || fail "--to"
diff -r "$work/mini" "$work/there/deep" || fail "not the same"
complains 1 'holds something else: choose an empty folder' \
  pull npm:tests-mini-1.2.0.tgz --to "$work/mini/model"
[[ ! -e $work/mini/model.pulling ]] || fail "a folder is left beside --to"

# ---- the registry ----------------------------------------------------------------

rm -rf "$cache" "$npm_config_cache" # npm keeps tarballs too
cp tests-mini-1.2.0.tgz "$world/npm"
run 0 pull --json npm:@tests/mini
says '"name": "model/config.json", "bytes": 3, "sha256": "[0-9a-f]{64}", "already": false'
[[ $(asked 'tgz') == 1 ]] || fail "the tarball: $(cat "$world/log")"

# A version that is there is not fetched again, and a new one is.
switches
run 0 pull --json npm:@tests/mini@1.2.0
says '"already": true'
[[ ! -s $world/log ]] || fail "a known version is asked for"
run 0 pull --json npm:@tests/mini
says '"already": true'
[[ $(asked 'tgz') == 0 ]] || fail "the tarball is fetched again"
about @tests/mini 1.10.0 >mini/package.json
npm pack --silent --pack-destination "$world/npm" ./mini >/dev/null 2>&1
rm -rf "$npm_config_cache"
run 0 pull "npm:@tests/mini@>1.2"
[[ $(cat "$work/out") == "$cache/@tests/mini/1.10.0/model" ]] || fail "1.10.0"

# Offline, and as a MODEL: the newest that is there.
switches
for name in npm:@tests/mini npm:@tests/mini@latest npm:@tests/mini@1.10.0; do
  run 0 pull --offline $name
  [[ $(cat "$work/out") == "$cache/@tests/mini/1.10.0/model" ]] || fail "$name"
done
complains 1 'without --offline' pull --offline npm:@tests/mini@7
complains 1 'without --offline' pull --offline npm:tests-mini-1.2.0.tgz
[[ ! -s $world/log ]] || fail "offline asks: $(cat "$world/log")"
if [[ $ATTEND_TEXT == ON ]]; then
  run 0 tokenize --json npm:@tests/mini@1.2.0 Hello
  says '"id": 7592'
fi
complains 2 'give the folder' tokenize npm:tests-mini-1.2.0.tgz x

# What the registry does not have, and what is not what it announced.
complains 1 'npm knows no nobody' pull npm:nobody
complains 1 'npm knows no' pull npm:@tests/mini@9.9.9
rm -rf "$cache" "$npm_config_cache"
switches integrity=1
complains 1 'hash its registry announced and was deleted' pull npm:@tests/mini@1.2.0
[[ ! -e $cache/@tests && ! -e $cache/.private ]] || fail "something is left"
npm_config_registry=http://127.0.0.1:1/ complains 1 'npm could not get' \
  pull npm:@tests/mini
complains 2 'there is no file nothing.tgz' pull npm:nothing.tgz
for bad in npm: npm:-g npm:./mini npm:owner/name npm:github:owner/name \
  npm:mini@ npm:mini@file:mini npm:mini@owner/name npm:@mini npm:../mini; do
  complains 2 'names no package' pull "$bad"
done

# ---- tarballs that mean harm --------------------------------------------------------

# npm hands local tarballs on as they are; so does this, in less time.
mkdir bad fake
cat >fake/npm <<'END'
#!/bin/sh
while [ "$1" != -- ]; do
  [ "$1" != --pack-destination ] || to=$2
  shift
done
cp "$2" "$to/packed.tgz"
END
chmod +x fake/npm
PATH=$work/fake:$PATH
python3 "$hub_folder/npm_tarballs.py" bad
for name in pax gnu ustar; do
  run 0 pull npm:./bad/long-$name.tgz
  [[ $(cat "$(find "$(cat "$work/out")" -name file)") == evil ]] || fail "$name"
done
for name in bad-parent bad-parent-gnu bad-absolute bad-backslash; do
  complains 1 'not unpacked: a name in it leads out' pull npm:./bad/$name.tgz
done
for name in bad-link bad-hard-link bad-device; do
  complains 1 'not unpacked: .* links or devices' pull npm:./bad/$name.tgz
done
complains 1 'cannot be made' pull npm:./bad/bad-both.tgz
[[ ! -e /tmp/evil && -z $(find "$work" -name 'evil*') ]] || fail "evil got out"
[[ -z $(find "$cache" -name 'bad*') && ! -e $cache/.private ]] ||
  fail "something is left"

# ---- interrupted ----------------------------------------------------------------------

# What an interrupted pull left is gone after the next.
mkdir -p "$cache/.private/package"
touch "$cache/.private/package/half"
run 0 pull npm:tests-mini-1.2.0.tgz
[[ ! -e $cache/.private ]] || fail "what was interrupted is left"
