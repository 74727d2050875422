#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# All tests, on PoCL, on a bare Debian 12: a build with every warning an error and most suites; faults, and the tests that
# look at memory, under the address and undefined-behaviour sanitizers; then the threads under the thread sanitizer. Its last line
# says how many meson tests passed and failed, its exit status whether all did. Everything it makes is in build-check*/.
#
#     tools/check.sh --quick   under 3 minutes: a plain build, the tests that need no device, and some of a device
#     tools/check.sh           the above, about 18 minutes on 2 cores
#                              (of long enumerations a part, which the commit chooses: CLATTN_TEST_TURN, tests/README.md)
#     tools/check.sh --full    all of these, and then kernels for NVIDIA's, AMD's and Intel's GPUs by clang 19, NVIDIA's assembler and
#                              ocloc, where these are, and AMD's machine code on simulated GPUs (suite assembler),
#                              the Python package built and installed with what PyPI has (suite packages),
#                              and what a change of compiler or C library would show: builds with every warning an error
#                              by clang, with LTO, with -Dunity=on, for 32 bits (-m32) and for musl. Of the last two, for
#                              which Debian has no OpenCL loader beside the usual one, every file is compiled and nothing
#                              is linked. Each build counts as a test.
set -eu
full=no
quick=no
case "${1:-}" in
'') ;;
--quick) quick=yes ;;
--full) full=yes ;;
*)
    echo "usage: $0 [--quick | --full]" >&2
    exit 2
    ;;
esac
cd "$(dirname "$0")/.."
. tools/debian.sh

# The tests choose their driver themselves; a program's own choice must not reach them.
unset OCL_ICD_VENDORS OCL_ICD_FILENAMES OPENCL_LAYERS CLATTN_TEST_DEVICE CLATTN_TEST_SKELETON CLATTN_TEST_FULL CLATTN_TEST_SEED \
    CLATTN_TEST_TURN
unset CLATTN_CACHE_DIR CLATTN_DISABLE POCL_EXTRA_BUILD_FLAGS
# A division by zero is to end a test, as it would end a program on another driver; PoCL would pass over it.
export POCL_SIGFPE_HANDLER=0

# Of long enumerations each commit takes another part; without a history, each day does.
if [ $full = no ]; then
    CLATTN_TEST_TURN=$((0x$(git rev-parse --short=7 HEAD 2>/dev/null | cut -c 1-7 | grep . || date +%j)))
    export CLATTN_TEST_TURN
    say "CLATTN_TEST_TURN=$CLATTN_TEST_TURN"
else
    export CLATTN_TEST_TURN=all
fi

begun=$(date +%s)
if [ $quick = yes ]; then
    say 'about 3 minutes on 2 cores'
elif [ $full = yes ]; then
    say 'about 45 minutes on 2 cores: all suites, sanitizers, other compilers and systems'
else
    say 'about 18 minutes on 2 cores; --quick takes 3'
fi
if ! has_opencl_driver; then
    say 'there is no OpenCL driver: taking PoCL, on which the tests run anyhow'
fi
# (by dpkg-dev Meson knows where Debian keeps libraries, and CMake looks for them)
install_missing meson ninja-build dpkg-dev gcc g++ cmake pkg-config binutils python3 ocl-icd-opencl-dev opencl-c-headers \
    libclblast-dev libcmocka-dev libjansson-dev libxxhash-dev clinfo pocl-opencl-icd mandoc zsh gnuplot-nox \
    abigail-tools clang-format clang
install_available oclgrind
install_available python3-numpy
install_available python3-pycodestyle

if [ $full = yes ]; then
    # (Debian's gcc-multilib, which has a link to the kernel's headers beside this, gives way to compilers for other processors)
    install_missing "gcc-$(gcc -dumpversion)-multilib" musl-tools python3-venv
    install_available clang-19 llvm-19 lld-19 libclc-19
fi

plain=build-check
asan=build-check-asan
tsan=build-check-tsan
passed=0
logs='' # of Meson, of each run
runs=0
failed=0
skipped=0
unreliable=''

# configure DIRECTORY OPTION...
configure() {
    directory=$1
    shift
    if [ -f "$directory/build.ninja" ]; then
        meson setup --reconfigure "$directory" -Dwerror=true "$@" >/dev/null
    else
        meson setup "$directory" -Dwerror=true "$@"
    fi
}

# The number that meson's summary in $log has behind a name; 0 where it has none.
summary() {
    sed -n "s/^$1: *\([0-9][0-9]*\) *\$/\1/p" "$log" | tail -n 1 | grep . || echo 0
}

# run_tests DIRECTORY ARGUMENT...: runs meson test, shows what it says, and adds up. A run without a summary (the build
# failed, or meson did) is a failure of its own.
run_tests() {
    directory=$1
    shift
    log=$directory/check.log
    $aslr meson test -C "$directory" --print-errorlogs "$@" 2>&1 | tee "$log" || true
    cp "$directory/meson-logs/testlog.json" "$directory/check-$runs.json" 2>/dev/null && logs="$logs $directory/check-$runs.json"
    runs=$((runs + 1))
    if ! grep -q '^Ok: ' "$log"; then
        failed=$((failed + 1))
        return
    fi
    wrong=$(($(summary Fail) + $(summary 'Unexpected Pass') + $(summary Timeout)))
    passed=$((passed + $(summary Ok) + $(summary 'Expected Fail')))
    skipped=$((skipped + $(summary Skipped)))
    failed=$((failed + wrong))
    [ $wrong -eq 0 ] || [ $wrong -gt 3 ] || run_again "$directory"
}

# run_again DIRECTORY: the last run's few failures once more, one at a time. Who passes then is unreliable and is named at the end,
# with what it printed the first time. Where many fail there is nothing to find out by that.
run_again() {
    say 'again, one at a time, what failed'
    python3 tests/failed.py --names "$1/meson-logs/testlog.json" >"$1/failed.txt"
    while IFS= read -r name; do
        # (Meson must not read the names)
        if $aslr meson test -C "$1" --no-rebuild --print-errorlogs --num-processes 1 "$name" </dev/null; then
            failed=$((failed - 1))
            passed=$((passed + 1))
            unreliable="$unreliable$name in $1; "
        fi
    done <"$1/failed.txt"
}

# PoCL compiles the same kernels for each build: let them share what it keeps.
share_kernels() {
    mkdir -p $plain/tests/pocl "$1/tests"
    [ -e "$1/tests/pocl" ] || ln -s "$PWD/$plain/tests/pocl" "$1/tests/pocl"
}

# The thread sanitizer wants its address ranges where they are without randomisation.
aslr=''

# Some tests sleep, or compile on one core: one more of them at a time than there are cores.
MESON_TESTTHREADS=$(($(nproc) + 1))
export MESON_TESTTHREADS

# How long suites took beside their budgets, and the last line.
finish() {
    say "seconds of tests, by suite, beside their budgets (tests/README.md); all of it took $(($(date +%s) - begun)) s"
    # shellcheck disable=SC2086 # a list of names
    if [ -n "$logs" ]; then
        python3 tests/budget.py $logs
        python3 tests/failed.py $logs
    fi
    [ -z "$unreliable" ] || say "failed at first, passed alone: ${unreliable%; }"
    printf '\n'
    if [ "$skipped" -gt 0 ]; then
        echo "$passed passed, $failed failed, $skipped skipped"
    else
        echo "$passed passed, $failed failed"
    fi
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

if [ $quick = yes ]; then
    say 'what needs no device, and a few tests of one'
    configure build-check-quick --buildtype=debug
    share_kernels build-check-quick
    run_tests build-check-quick --suite unit --suite format --suite abi
    run_tests build-check-quick few_rows strided order no_clblast host
    finish
    exit
fi

say 'all suites but those that sanitizers watch'
configure $plain --buildtype=release
# (what sanitizers watch is in their build; without them, in --full)
run_tests $plain --no-suite fault --no-suite fuzz --no-suite watched --no-suite threads --no-suite unit --no-suite assembler --no-suite packages

say 'address and undefined-behaviour sanitizers'
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS="suppressions=$PWD/tests/support/lsan.supp:print_suppressions=0"
# (lines of the source are all that their reports need)
configure $asan -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Db_sanitize=address,undefined -Db_lundef=false
share_kernels $asan
run_tests $asan --suite unit --suite fault --suite fuzz --suite watched

say 'thread sanitizer'
if setarch "$(uname -m)" -R true 2>/dev/null; then
    aslr="setarch $(uname -m) -R"
fi
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
configure $tsan -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Db_sanitize=thread -Db_lundef=false
share_kernels $tsan
run_tests $tsan threads host_passes

# build NAME COMPILER OPTION...: builds all in build-check-NAME; with `objects` set, compiles all and links nothing.
build() {
    directory=build-check-$1
    compiler=$2
    shift 2
    say "building in $directory: $compiler $*"
    log=$(mktemp)
    if (export CC="$compiler" && configure "$directory" "$@" && build_targets "$directory") >"$log" 2>&1; then
        passed=$((passed + 1))
        tail -n 1 "$log"
    else
        failed=$((failed + 1))
        cat "$log"
    fi
    rm -f "$log"
}

build_targets() {
    if [ "${objects:-no}" = yes ]; then
        # shellcheck disable=SC2046 # a list of names
        ninja -C "$1" $(ninja -C "$1" -t targets all | sed -n 's/^\(.*\.c\.o\): c_COMPILER.*/\1/p')
    else
        ninja -C "$1"
    fi
}

# The headers of the libraries that a C library other than the usual one is compiled with: these and no more of glibc's.
library_headers() {
    mkdir -p "$1"
    for header in CL jansson.h xxhash.h clblast_c.h clblast_half.h "$(gcc -print-multiarch)/jansson_config.h"; do
        ln -sfn "/usr/include/$header" "$1/"
    done
}

# The kernel's headers, which the compiler for 32 bits looks for in another folder.
kernel_headers() {
    mkdir -p "$1"
    ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" "$1/"
}

if [ $full = yes ]; then
    say "other vendors' compilers, simulated GPUs, and without sanitizers what they watch"
    run_tests $plain --suite assembler --suite packages --suite unit --suite watched --suite threads
    for system in aarch64 windows; do
        say "unit tests of the library on $system"
        if tools/cross/build.sh $system; then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
        fi
    done
    build clang clang
    build unity gcc -Dunity=on
    build lto gcc -Db_lto=true -Dtests=false
    objects=yes
    PKG_CONFIG_LIBDIR=/usr/lib/$(gcc -print-multiarch)/pkgconfig:/usr/share/pkgconfig
    export PKG_CONFIG_LIBDIR
    kernel_headers build-check-m32-include
    build m32 gcc -Dtests=false "-Dc_args=-m32 -isystem$PWD/build-check-m32-include" -Dc_link_args=-m32
    library_headers build-check-musl-include
    build musl musl-gcc -Dtests=false "-Dc_args=-isystem$PWD/build-check-musl-include"
fi

finish
