#!/bin/sh
# The tests of the C SDK: its sources without a warning as C17, its headers as C++17, then everything else, under the
# sanitizers where the compiler has them.
#
#   sh plugin-sdk/c/tests/test.sh [COMPILER...]        # cc, and clang if it is there
set -eu
cd "$(dirname "$0")"
golden=../../../wit/golden
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
warnings="-Wall -Wextra -Wpedantic -Werror"

# shellcheck disable=SC2046
[ $# -ne 0 ] || set -- cc $(command -v clang || true)
for compiler in "$@"; do
    # shellcheck disable=SC2086 # These are several words.
    flags="-std=c17 $warnings -O1 -g -I../src -DTIDEGATE_TOKENS"
    sanitizers="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
    echo 'int main(void) { return 0; }' > "$out/none.c"
    # shellcheck disable=SC2086
    "$compiler" $sanitizers -o "$out/none" "$out/none.c" 2> "$out/said" || sanitizers=""
    # shellcheck disable=SC2086
    "$compiler" $flags $sanitizers -o "$out/sdk-tests" ./*.c ../src/*.c -lm
    "$out/sdk-tests" "$golden"
    printf '#include "tidegate.h"\n#include "tg_harness.h"\n' > "$out/header.cpp"
    # As it is compiled for a component, where the compiler can.
    echo '#include <stdlib.h>' > "$out/library.c"
    if "$compiler" --target=wasm32-wasi -fsyntax-only "$out/library.c" 2> "$out/said"; then
        # shellcheck disable=SC2086
        "$compiler" --target=wasm32-wasi -std=c17 $warnings -O2 -I../src -fsyntax-only ../src/*.c
    fi
    # A member of another type than its line says does not compile.
    for member in int64_t int32_t; do
        {
            echo '#include "tidegate.h"'
            echo "struct config { $member count; };"
            echo 'const tg_field field = {TG_INTEGER(struct config, count, "count"), .optional = true};'
        } > "$out/field.c"
        compiled=yes
        # shellcheck disable=SC2086
        "$compiler" $flags -fsyntax-only "$out/field.c" 2> "$out/said" || compiled=no
        case $member:$compiled in
        int64_t:yes) ;;
        int32_t:no) grep -q "count is no int64_t" "$out/said" ;;
        *) cat "$out/said" && exit 1 ;;
        esac
    done
    # A compiler of C alone has no C++ to hold the headers against.
    "$compiler" -x c++ -fsyntax-only /dev/null 2> "$out/said" || continue
    # shellcheck disable=SC2086
    "$compiler" -x c++ -std=c++17 $warnings -I../src -fsyntax-only "$out/header.cpp"
done
