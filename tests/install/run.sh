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

for names in "nm -D $library/libattend.so" "nm -g $library/libattend.a" \
  "nm -D $library/libattend-lab.so" "nm -g $library/libattend-lab.a"; do
  foreign=$($names --defined-only | awk 'NF == 3 && $2 != "A" { print $3 }' |
    grep -vE '^attend(lab)?_' || true)
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
"$scratch/build/with_lab_static" || fault "the program linked to attend::lab_static fails"
# The lab, through pkg-config: a program of studies and designs.
# shellcheck disable=SC2046
$cc -std=c17 -Wall -Wextra -Werror -o "$scratch/lab" "$here/uses_lab.c" \
  $(pkg-config --cflags --libs attend-lab) -Wl,-rpath,"$library" \
  -Wl,-rpath-link,"$library"
"$scratch/lab" || fault "the program linked to attend-lab fails"
# shellcheck disable=SC2046
$cc -std=c17 -o "$scratch/lab_static" "$here/uses_lab.c" -static \
  $(pkg-config --static --cflags --libs attend-lab) 2>"$scratch/lab_static.log" ||
  fault "a static link of attend-lab fails: $(cat "$scratch/lab_static.log")"
"$scratch/lab_static" || fault "the program linked statically to attend-lab fails"

# C++17 takes every header.
{
  for header in "$prefix"/include/attend/*.h; do
    echo "#include <attend/$(basename "$header")>"
  done
  echo 'int main() { attend_context *ctx = nullptr;'
  echo 'int status = attend_context_create(nullptr, &ctx);'
  echo 'attend_context_free(ctx); return status; }'
} >"$scratch/all.cc"
# shellcheck disable=SC2046
${CXX:-c++} -std=c++17 -Wall -Wextra -Werror -o "$scratch/cc" "$scratch/all.cc" \
  $(pkg-config --cflags --libs attend) -Wl,-rpath,"$library" ||
  fault "C++17 does not take the headers"
"$scratch/cc" || fault "the C++ program fails"

# Of the two builds from sources: no wide kernels, which take long to compile.
quick=(-DATTEND_SCALAR_ONLY=ON -DCMAKE_BUILD_TYPE=Debug)

# The sources inside another project: the library alone, under its public names.
{
  cmake -S "$here/inside" -B "$scratch/inside" -G Ninja "${quick[@]}" \
    -DATTEND_SOURCES="$(cd "$here/../.." && pwd)" &&
    cmake --build "$scratch/inside" --target inside
} >"$scratch/inside.log" 2>&1 ||
  fault "FetchContent of the sources fails: $(tail -n 30 "$scratch/inside.log")"
"$scratch/inside/inside" || fault "the program with attend inside fails"
[[ ! -e $scratch/inside/_deps/attend-build/attend ]] ||
  fault "a project that takes attend in builds its program"

# musl: the library without the tokenizers' libraries, which Debian has for glibc alone.
if command -v musl-gcc >/dev/null; then
  {
    CC=musl-gcc cmake -S "$here/../.." -B "$scratch/musl" -G Ninja "${quick[@]}" \
      -DATTEND_TEXT=OFF -DATTEND_PULL=OFF \
      -DATTEND_BUILD_CLI=OFF -DATTEND_BUILD_TESTS=OFF -DATTEND_BUILD_EXAMPLES=OFF \
      -DATTEND_BUILD_MAN=OFF -DATTEND_BLAS=OFF -DATTEND_WERROR=ON &&
      cmake --build "$scratch/musl" --target attend_static &&
      musl-gcc -std=c17 -static -I"$here/../../include" -o "$scratch/with_musl" \
        "$source" "$scratch/musl/libattend.a" -lm
  } >"$scratch/musl.log" 2>&1 ||
    fault "musl-gcc does not build it: $(tail -n 30 "$scratch/musl.log")"
  "$scratch/with_musl" || fault "the program linked with musl fails"
else
  fault "musl-gcc is missing: install musl-tools (tools/setup test)"
fi
echo "install: attend $version serves pkg-config and find_package"
