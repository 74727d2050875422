#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Builds the library and the command for another system and runs the unit tests that it has there, under an emulator.
# Everything that it makes is in build-cross-NAME/.
#
#     tools/cross/build.sh windows     by mingw-w64, run under Wine
#     tools/cross/build.sh aarch64     run under qemu-user
#
# What the library needs there is made here: an OpenCL library to link with, from the names that this machine's loader has;
# the headers of OpenCL and xxHash, which are one for all; and cmocka and jansson, compiled from Debian's source packages.
set -eu
case "${1:-}" in
windows) compiler=x86_64-w64-mingw32-gcc-posix tools='gcc-mingw-w64-x86-64-posix wine wine64' ;;
aarch64) compiler=aarch64-linux-gnu-gcc tools='gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user' ;;
*)
    echo "usage: $0 windows|aarch64" >&2
    exit 2
    ;;
esac
name=$1
cd "$(dirname "$0")/../.."
. tools/debian.sh
# shellcheck disable=SC2086 # a list of names
install_missing meson ninja-build pkg-config python3 binutils ocl-icd-opencl-dev opencl-c-headers libxxhash-dev $tools

root=$PWD/build-cross-$name
deps=$root/needed
mkdir -p "$deps/include" "$deps/lib/pkgconfig"
ln -sfn /usr/include/CL /usr/include/xxhash.h "$deps/include/"

# Links as the loader does; where it is called, it has no platform.
make_opencl() {
    loader=$(gcc -print-file-name=libOpenCL.so)
    names=$(nm -D --defined-only "$loader" | sed -n 's/.* T \(cl[A-Z][A-Za-z]*\)\(@.*\)*$/\1/p' | sort -u)
    if [ "$name" = windows ]; then
        { printf 'LIBRARY OpenCL.dll\nEXPORTS\n' && printf '%s\n' "$names"; } >"$deps/OpenCL.def"
        x86_64-w64-mingw32-dlltool -d "$deps/OpenCL.def" -l "$deps/lib/libOpenCL.dll.a"
    else
        for function in $names; do
            echo "int $function(void) { return -1001; } /* CL_PLATFORM_NOT_FOUND_KHR */"
        done >"$deps/OpenCL.c"
        $compiler -shared -fPIC -Wl,-soname,libOpenCL.so.1 -o "$deps/lib/libOpenCL.so.1" "$deps/OpenCL.c"
        ln -sfn libOpenCL.so.1 "$deps/lib/libOpenCL.so"
    fi
}

# Debian's source package of that name, in "$deps/NAME".
source_package() {
    [ ! -d "$deps/$1" ] || return 0
    mkdir -p "$deps/lists/partial"
    sed -n 's/^URIs: \(.*\)/\1/p;s/^deb \(\[.*\] \)*\([^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
        head -n 1 >"$deps/archive"
    echo "deb-src $(cat "$deps/archive") $(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release) main" >"$deps/sources"
    (
        cd "$deps"
        options="-o Dir::Etc::SourceList=$deps/sources -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$deps/lists -o APT::Sandbox::User="
        # shellcheck disable=SC2086 # options
        apt-get -q $options update && apt-get -q $options source --download-only "$1"
        mkdir "$1.part"
        tar -C "$1.part" --strip-components=1 -xf "$1"_*.orig.tar.?z
        mv "$1.part" "$1"
    )
}

make_cmocka() {
    source_package cmocka
    ln -sfn "$deps"/cmocka/include/cmocka*.h "$deps/include/"
    printf '#define HAVE_INTTYPES_H 1\n#define HAVE_STDINT_H 1\n#define HAVE_STRINGS_H 1\n#define HAVE_SIGNAL_H 1\n' >"$deps/config.h"
    [ "$name" = windows ] || printf '#define HAVE_GCC_THREAD_LOCAL_STORAGE 1\n#define HAVE_CLOCK_GETTIME_REALTIME 1\n' >>"$deps/config.h"
    $compiler -O1 -w -std=gnu99 -DHAVE_CONFIG_H "-I$deps" "-I$deps/include" -c -o "$deps/cmocka.o" "$deps/cmocka/src/cmocka.c"
    rm -f "$deps/lib/libcmocka.a"
    ar rcs "$deps/lib/libcmocka.a" "$deps/cmocka.o"
}

# What jansson's own configure would find: a 64-bit system of gcc's with C11's library.
make_jansson() {
    source_package jansson
    sed -e 's/@json_inline@/inline/' -e 's/@json_have_[a-z_]*@/1/' "$deps/jansson/src/jansson_config.h.in" >"$deps/include/jansson_config.h"
    ln -sfn "$deps/jansson/src/jansson.h" "$deps/include/"
    : >"$deps/include/jansson_private_config.h" # (what configure writes; what of it counts here is given below)
    for file in dump error hashtable hashtable_seed load memory pack_unpack strbuffer strconv utf value version; do
        $compiler -O2 -w -std=gnu99 -DHAVE_STDINT_H=1 -D__USE_MINGW_ANSI_STDIO=1 "-I$deps/include" -c -o "$deps/jansson-$file.o" "$deps/jansson/src/$file.c"
    done
    rm -f "$deps/lib/libjansson.a"
    ar rcs "$deps/lib/libjansson.a" "$deps"/jansson-*.o
}

# describe NAME VERSION CFLAGS LIBS
describe() {
    printf 'Name: %s\nDescription: for the cross build\nVersion: %s\nCflags: -isystem%s/include %s\nLibs: %s\n' "$1" "$2" "$deps" "$3" \
        "$4" >"$deps/lib/pkgconfig/$1.pc"
}

make_opencl
make_cmocka
make_jansson
describe OpenCL 3.0 '' "-L$deps/lib -lOpenCL"
describe libxxhash "$(pkg-config --modversion libxxhash)" -DXXH_INLINE_ALL ''
describe jansson 2.14 '' "-L$deps/lib -ljansson"
describe cmocka 1.1.5 '' "-L$deps/lib -lcmocka"
export PKG_CONFIG_LIBDIR="$deps/lib/pkgconfig"
[ -f "$root/build/build.ninja" ] ||
    meson setup "$root/build" --cross-file "tools/cross/$name.ini" -Dcommand=true -Dtests=true -Dclblast=disabled -Dmpi=disabled -Dwerror=true
preload=
if [ "$name" = aarch64 ]; then # what tests start runs under the emulator as well
    $compiler -Wall -Wextra -Werror -O1 -shared -fPIC -o "$deps/lib/emulated.so" tools/cross/emulated.c
    CLATTN_EMULATOR=$(command -v qemu-aarch64)
    export CLATTN_EMULATOR CLATTN_EMULATOR_ROOT=/usr/aarch64-linux-gnu
    preload=",LD_PRELOAD=$deps/lib/emulated.so"
fi
export LD_LIBRARY_PATH="$deps/lib" QEMU_SET_ENV="LD_LIBRARY_PATH=$deps/lib$preload" WINEDEBUG=-all WINEPREFIX="$root/wine"
meson test -C "$root/build" --suite unit --timeout-multiplier 10 --print-errorlogs
