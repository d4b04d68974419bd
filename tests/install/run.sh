#!/usr/bin/env bash
# Installs a build into a scratch tree and uses it as a stranger would:
# tests/install/run.sh BUILD SCRATCH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$1
scratch=$2
fault() {
  echo "install: $*" >&2
  exit 1
}

rm -rf "$scratch"
mkdir -p "$scratch"
scratch=$(cd "$scratch" && pwd)
DESTDIR=$scratch/stage cmake --install "$build" --prefix /usr >/dev/null
# The tree must not care where it lies.
prefix=$scratch/tree
mv "$scratch/stage/usr" "$prefix"
library=$(dirname "$(find "$prefix" -name libattend.a)")
export PKG_CONFIG_PATH=$library/pkgconfig
version=$(pkg-config --modversion attend)

soname=$(readelf -d "$library/libattend.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[[ $soname == libattend.so.[0-9]* ]] || fault "the SONAME is '$soname'"
[[ -e $library/$soname ]] || fault "$soname is not installed"

for names in "nm -D $library/libattend.so" "nm -g $library/libattend.a"; do
  foreign=$($names --defined-only | awk 'NF == 3 { print $3 }' |
    grep -v '^attend_' || true)
  [[ -z $foreign ]] || fault "$names shows names of others: $foreign"
done

if [[ -x $prefix/bin/attend ]]; then
  "$prefix/bin/attend" version | grep -qF "$version" ||
    fault "attend version does not say $version"
else
  fault "bin/attend is not installed"
fi

cc=${CC:-cc}
source=$here/uses_attend.c
# shellcheck disable=SC2046 # several words are meant
$cc -std=c17 -Wall -Wextra -Werror -o "$scratch/shared" "$source" \
  $(pkg-config --cflags --libs attend) -Wl,-rpath,"$library" -lm
"$scratch/shared" || fault "the program linked by pkg-config fails"

# shellcheck disable=SC2046
$cc -std=c17 -o "$scratch/static" "$source" -static \
  $(pkg-config --static --cflags --libs attend) 2>"$scratch/static.log" ||
  fault "a static link by pkg-config fails: $(cat "$scratch/static.log")"
"$scratch/static" || fault "the program linked statically fails"

{
  cmake -S "$here" -B "$scratch/build" -G Ninja -DWANTED_VERSION="$version" \
    -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$scratch/build"
} >"$scratch/cmake.log" 2>&1 ||
  fault "find_package(attend) fails: $(cat "$scratch/cmake.log")"
"$scratch/build/with_shared" || fault "the program linked to attend::attend fails"
"$scratch/build/with_static" || fault "the program linked to attend::static fails"
echo "install: attend $version serves pkg-config and find_package"
