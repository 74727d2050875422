#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# The adapter in tools/ggml beside ggml itself: builds the CPU back end of a checkout of ggml, or of llama.cpp, the library, and
# compare.c over both, and runs it on the first OpenCL device, or on that of CLATTN_TEST_DEVICE=P:D. What it makes is in
# build-ggml/; the checkout is only read.
#
#     tests/ggml/compare.sh GGML [COUNT]      COUNT: the first nodes alone
set -eu
ggml=$(cd "${1:?usage: $0 GGML [COUNT]}" && pwd)
shift
[ -f "$ggml/include/ggml.h" ] || ggml=$ggml/ggml
if [ ! -f "$ggml/include/ggml.h" ]; then
    echo "$0: there is no include/ggml.h in the folder, nor in its ggml/" >&2
    exit 2
fi
cd "$(dirname "$0")/../.."
folder=build-ggml
mkdir -p $folder

# Says what it does; where that fails, all of its output.
quietly() {
    printf '%s\n' "$*"
    "$@" >$folder/log 2>&1 || {
        cat $folder/log
        exit 1
    }
}

quietly cmake -S "$ggml" -B $folder/ggml -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_OPENMP=OFF \
    -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF
quietly cmake --build $folder/ggml --target ggml-base ggml-cpu -j "$(nproc)"
[ -f $folder/clattn/build.ninja ] ||
    quietly meson setup $folder/clattn --buildtype=release --prefix "$PWD/$folder/installed" --libdir lib -Dtests=false \
        -Dcommand=false
quietly meson install -C $folder/clattn
PKG_CONFIG_PATH=$PWD/$folder/installed/lib/pkgconfig
export PKG_CONFIG_PATH
# shellcheck disable=SC2046 # words
quietly ${CC:-cc} -std=c11 -O2 -Itools/ggml -Itests/ggml -I"$ggml/include" tools/ggml/clattn_ggml.c tools/ggml/host.c \
    tests/ggml/compare.c tests/ggml/nodes.c tests/ggml/judge.c tests/ggml/own.c -o $folder/compare \
    $(find $folder/ggml/src -name libggml-cpu.a) $(find $folder/ggml/src -name libggml-base.a) \
    $(pkg-config --cflags --libs clattn OpenCL) -Wl,-rpath,"$PWD/$folder/installed/lib" -lstdc++ -lpthread -ldl -lm
$folder/compare "$@"
