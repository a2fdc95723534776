#!/bin/sh
# The tests of the C SDK: its sources without a warning as C17, its headers as C++17, then everything else, under the
# sanitizers where the compiler has them.
#
#   sh plugin-sdk/c/tests/test.sh [COMPILER...]
set -eu
cd "$(dirname "$0")"
golden=../../../wit/golden
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"

[ $# -ne 0 ] || set -- cc
for compiler in "$@"; do
    # shellcheck disable=SC2086 # These are several words.
    flags="-std=c17 $warnings -O1 -g -I../src"
    sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    echo 'int main(void) { return 0; }' > "$out/none.c"
    # shellcheck disable=SC2086
    "$compiler" $sanitizers -o "$out/none" "$out/none.c" 2> "$out/said" || sanitizers=""
    # shellcheck disable=SC2086
    "$compiler" $flags $sanitizers -o "$out/sdk-tests" ./*.c ../src/*.c -lm
    "$out/sdk-tests" "$golden"
    printf '#include "tidegate.h"\n#include "tg_harness.h"\n' > "$out/header.cpp"
    # A compiler of C alone has no C++ to hold the headers against.
    "$compiler" -x c++ -fsyntax-only /dev/null 2> "$out/said" || continue
    # shellcheck disable=SC2086
    "$compiler" -x c++ -std=c++17 $warnings -I../src -fsyntax-only "$out/header.cpp"
done
