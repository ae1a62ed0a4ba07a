#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs to a fresh prefix and builds the example against that copy, by pkg-config and by CMake.
# Usage: test_install.sh SOURCE_DIR BUILD_DIR
set -eu
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
headers=$(cd "$work/prefix/include" && find . -type f | sort)
[ "$headers" = "$(cd "$source/include" && find . -type f | sort)" ] || { echo "headers differ"; exit 1; }

pc=$(find "$work/prefix" -name attn.pc)
lib=$(find "$work/prefix" -name 'libattn.*' | head -n 1 | xargs dirname)
export PKG_CONFIG_PATH="$(dirname "$pc")"
flags="$(pkg-config --cflags --libs attn)"
# shellcheck disable=SC2086
cc -std=c11 -Wall -Wextra -Werror "$source/examples/sdpa.c" $flags -o "$work/by_pkgconfig"
LD_LIBRARY_PATH="$lib" "$work/by_pkgconfig" >"$work/a.txt"

cmake -S "$source/examples" -B "$work/examples" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/examples" >/dev/null
"$work/examples/sdpa" >"$work/b.txt"
# the sums agree; the choice may differ between runs, as it rests on measured speed
head -n 1 "$work/a.txt" >"$work/a1.txt"
head -n 1 "$work/b.txt" | cmp - "$work/a1.txt"

# every public header stands alone, also in C++ where there is a compiler
for header in $(cd "$source/include" && find . -name '*.h'); do
  echo "#include <${header#./}>" | cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
    -I"$work/prefix/include" -x c -
  if command -v c++ >/dev/null 2>&1; then
    echo "#include <${header#./}>" | c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only \
      -I"$work/prefix/include" -x c++ -
  fi
done
"$work/prefix/bin/attn" --version >/dev/null
echo "installed copy works: $(head -n 1 "$work/b.txt")"
