#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Runs fuzz targets, one after the other, and adds what is new to their corpora.
#
#     tests/fuzz/campaign.sh BUILD DIRECTORY RUNS TARGET...
#
# BUILD was configured with CC=clang, -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false. DIRECTORY keeps corpora,
# logs and what was found (DIRECTORY/TARGET-crash-...); a second run goes on from there. SECONDS_EACH in the environment:
# the longest that one target runs. A line for each target: executions, seconds, edges, features, inputs, findings.
set -eu
if [ $# -lt 4 ]; then
    sed -n '5,10s/^# \{0,1\}//p' "$0"
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$1
out=$2
runs=$3
shift 3
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}"

mkdir -p "$out/seeds"
python3 "$here/seeds.py" "$out/seeds"

# The last number behind a word in the log.
figure() {
    grep -o "$1 *[0-9]*" "$log" | tail -n 1 | grep -o '[0-9]*$' || echo '?'
}

for target; do
    log=$out/$target.log
    mkdir -p "$out/$target"
    python3 "$here/pack.py" unpack "$here/corpus/$target.corpus" "$out/$target"
    dictionary=$out/seeds/$target.dict
    begun=$(date +%s)
    # Libraries' memory is theirs; an input is slow that takes 25 s.
    nice "$build/tests/fuzz/fuzz_$target" ${SECONDS_EACH:+-max_total_time=$SECONDS_EACH} \
        $([ ! -f "$dictionary" ] || echo "-dict=$dictionary") -runs="$runs" -max_len=4096 -timeout=25 -rss_limit_mb=2048 \
        -print_final_stats=1 -artifact_prefix="$out/$target-" "$out/$target" "$out/seeds/$target" >"$log" 2>&1 || true
    found=$(find "$out" -maxdepth 1 -name "$target-*" | wc -l)
    echo "$target: $(figure number_of_executed_units:) executions, $(($(date +%s) - begun)) s, edges $(figure cov:)," \
        "features $(figure ft:), inputs $(figure corp:), found $found"
    if [ "$(figure number_of_executed_units:)" = '?' ]; then
        tail -n 3 "$log" >&2
        echo "$target did not run" >&2
        exit 1
    fi
done
