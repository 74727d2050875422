#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# From a fresh clone on Debian 12 to attention on this machine's OpenCL device: installs what is missing, builds, lists the
# devices, shows how the block sizes follow from the local memory, runs attention on .npy arrays, checks the device against
# the float64 reference, and prints speed and memory beside standard attention. Everything it makes is in build-quickstart/.
# A few minutes on 2 cores, most of them for compiling.
#
#     tools/quickstart.sh
#     tools/quickstart.sh --prefix DIR     installs the library, its headers, the command and its manual below DIR, too
set -eu
prefix=''
case "${1:-}" in
'') ;;
--prefix)
    mkdir -p "${2:?--prefix needs a folder}"
    prefix=$(cd "$2" && pwd)
    ;;
*)
    echo "usage: $0 [--prefix DIR]" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."
. tools/debian.sh
say 'about 4 minutes on 2 cores, most of them for compiling; less where kernels are kept'

folder=build-quickstart
data=$folder/arrays

# (by dpkg-dev Meson knows where Debian keeps libraries, and CMake looks for them)
install_missing meson ninja-build dpkg-dev gcc pkg-config python3 ocl-icd-opencl-dev opencl-c-headers libclblast-dev \
    libxxhash-dev libjansson-dev
if ! has_opencl_driver; then
    say 'there is no OpenCL driver: taking PoCL, which runs OpenCL on the processor'
    install_missing pocl-opencl-icd
fi

say 'building'
[ -f $folder/build.ninja ] || meson setup $folder --buildtype=release -Dtests=false
# (the command there is to find the library beside it)
# shellcheck disable=SC2016 # the loader's word
[ -z "$prefix" ] || meson configure $folder --prefix "$prefix" --libdir lib '-Dc_link_args=-Wl,-rpath,$ORIGIN/../lib'
meson compile -C $folder
clattn=$folder/tools/clattn
if [ -n "$prefix" ]; then
    say "installing below $prefix"
    meson install -C $folder >/dev/null
fi

# Runs the command and shows what was run.
clattn() {
    printf '\n$ clattn'
    printf ' %s' "$@"
    printf '\n'
    "$clattn" "$@"
}

say 'the devices'
clattn devices

say 'from local memory to block sizes'
clattn plan --d 64 --n 1024 --causal
clattn plan --d 128 --n 1024 --causal

say 'attention on arrays: 8 heads, 1024 positions, head dimension 64'
mkdir -p $data
for name in q k v; do
    python3 tools/random_npy.py --seed "$name" $data/$name.npy 1 8 1024 64
done
clattn run --q $data/q.npy --k $data/k.npy --v $data/v.npy --causal --out $data/o.npy --lse $data/lse.npy
ls -l $data

say 'against the float64 reference'
clattn verify --quick --seed 1

say 'speed and memory, beside standard attention'
clattn bench --n 512,1024,2048 --d 64 --heads 8 --causal both

if [ -n "$prefix" ]; then
    say "done: $prefix/bin/clattn; programs find the library by pkg-config or CMake below $prefix"
else
    say "done: the command is $clattn, 'meson install -C $folder' installs it with the library"
fi
