#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# What the tests run of the library and of the command, by gcov and gcovr (Debian 12 has both):
#
#     tools/coverage.sh [MESON_TEST_ARGUMENT...]      default: all suites
#
# Prints the sums. Fails where src has fewer than 95 % of its lines or 88 % of its
# branches, tools fewer than 85 % of its lines, or a test fails. build-coverage/coverage-*.html and .txt show which lines.
# tests/README.md says why what is missing is.
set -eu
cd "$(dirname "$0")/.."
build=build-coverage
if ! command -v gcovr >/dev/null; then
    echo 'gcovr is missing: apt-get install gcovr' >&2
    exit 2
fi
if [ ! -f $build/build.ninja ]; then
    meson setup $build -Db_coverage=true --buildtype=debugoptimized
fi
ninja -C $build
find $build -name '*.gcda' -delete
failed=0
meson test -C $build --no-rebuild --print-errorlogs "$@" || failed=1

# report FOLDER LINES BRANCHES: asserts and loops that never end have branches that cannot be taken.
report() {
    gcovr --root . --object-directory $build --filter "$1/" --exclude '.*/build-' --exclude-unreachable-branches \
        --gcov-ignore-parse-errors --sort-uncovered --fail-under-line "$2" --fail-under-branch "$3" --print-summary \
        --html-details "$build/coverage-$(echo "$1" | tr / -).html" --txt "$build/coverage-$(echo "$1" | tr / -).txt" ||
        failed=1
}
report src 95 88
report tools/clattn 85 0
exit $failed
