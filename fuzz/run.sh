#!/bin/sh
# Runs every fuzz target for SECONDS, 10 by default, with the seeds that are checked in:
#
#     fuzz/run.sh [SECONDS] [TARGET…]
#
# Needs a nightly toolchain and cargo-fuzz (cargo install cargo-fuzz --locked). New findings go to corpus/ and
# artifacts/, which git ignores; an input that failed belongs into seeds/ together with its repair.
cd "$(dirname "$0")" || exit 1
seconds=${1:-10}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- $(sed -n 's/^name = "\([a-z_]*\)"$/\1/p' Cargo.toml)

failed=0
for target in "$@"; do
    mkdir -p "corpus/$target" || exit 1
    # No sanitizer: a panic is what these look for; Hairpin has no unsafe code in any of these parsers.
    if cargo +nightly fuzz run -s none "$target" "corpus/$target" "seeds/$target" -- \
        -max_total_time="$seconds" -rss_limit_mb=512 -timeout=10 -print_final_stats=1; then
        echo "$target: ${seconds} s without a failure"
    else
        echo "$target: FAILED"
        failed=1
    fi
done
exit $failed
