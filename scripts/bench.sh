#!/bin/sh
# What `make bench-NAME` measures:
#
#     scripts/bench.sh NAME [OPTIONS of the benchmark, such as --seconds 1 --out DIRECTORY; --help shows them]
#
# It measures the command that is shipped, which packaging/command makes; where zig cannot be had, cargo's release build of the host; HAIRPIN_COMMAND names
# another. The record goes to runs/DATE-HOST/NAME, with HAIRPIN_RECORD=FOLDER to FOLDER/NAME. NAME `figures` runs all of them. Ends with 3 if a bound is missed, with 1 if a part failed, with 4 if something that it needs is not here.
cd "$(dirname "$0")/.." || exit 1
name=${1:-}
shift
case $name in
flows) HAIRPIN_FOR=bench-flows ;;
packet) HAIRPIN_FOR=bench-packet ;;
peers) HAIRPIN_FOR=bench ;;
requests) HAIRPIN_FOR=bench-requests ;;
esac
. scripts/setup.sh
# A view needs a terminal to draw on.
[ "$name" != watch ] || setup_has tmux || setup_apt tmux || setup_fail "please install tmux (as root: apt-get install tmux), then run make again"

# The profile of the tests is compiled sooner, and takes the place of that of benchmarks where nothing is measured, or to try a benchmark.
profile=${HAIRPIN_BENCH_PROFILE:-bench}
[ "$name" != figures ] || profile=dev
record="${HAIRPIN_RECORD:-$PWD/runs/$(date -u +%Y-%m-%d)-$(cat /proc/sys/kernel/hostname)}/$name"
[ -z "${HAIRPIN_RECORD:-}" ] || set -- --out "$record" "$@"
worst=0

# note STATUS: remembers how a part ended.
note() {
    case $1 in
    0) ;;
    3) [ "$worst" = 0 ] && worst=3 ;;
    *) worst=$1 ;;
    esac
}

# part FILE COMMAND…: runs a part with a text of its own, keeps what it prints, and goes on after one that misses.
part() {
    file=$1
    shift
    mkdir -p "$record" || exit 1
    printf '\n== %s\n' "$*" >&2
    { "$@"; echo "ended with status $?"; } >"$record/$file"
    status=$(sed -n 's/^ended with status //p' "$record/$file" | tail -1)
    sed -i '/^ended with status [0-9]*$/d' "$record/$file"
    case $file in *.txt) echo "Code $(scripts/measured-code.sh), commit $(scripts/commit.sh), Linux $(uname -r), $(date -u +%FT%TZ)" >>"$record/$file" ;; esac
    cat "$record/$file"
    note "$status"
}

# bench FOLDER NAME ARGUMENT…: builds the benchmark NAME of the package in crates/FOLDER, and runs it in that folder, as `cargo bench` does. Cargo
# itself would call one that ends with 3 an error. $PWD stays as it is: relative paths are those of this folder.
bench() {
    folder=./crates/$1
    built=$(cargo bench --no-run --quiet --message-format json-render-diagnostics --profile "$profile" --package "hairpin-$1" --bench "$2") || return 1
    program=$(printf '%s\n' "$built" | sed -n 's/.*"kind":\["bench"\].*"executable":"\([^"]*\)".*/\1/p')
    if [ -z "$program" ]; then
        echo "bench: cargo does not say where it has built the benchmark $2" >&2
        return 1
    fi
    shift 2
    (cd "$folder" && exec env PWD="$OLDPWD" "$program" "$@")
}
rings() {
    file=$1
    shift
    part "$file" bench packet rings "$@"
}

# `builds` is told which two; filling and checking docs measures nothing.
case "$name $*" in
builds* | 'figures '*--fill* | 'figures '*--check*) ;;
*)
    if [ -n "${HAIRPIN_COMMAND:-}" ]; then
        hairpin=$HAIRPIN_COMMAND
    # A shell of its own, as it ends where the tools cannot be had.
    elif ! hairpin=$(packaging/command "$(uname -m)"); then
        echo "bench: the command that is shipped cannot be made here (see above): cargo's release build takes its place" >&2
        HAIRPIN_CODE=$(scripts/measured-code.sh) || exit 1
        export HAIRPIN_CODE
        # shellcheck disable=SC2086,SC2154 # nothing, or one word, from setup.sh
        cargo build $setup_quiet --release --package hairpin-cli --bin hairpin || exit 1
        hairpin="${CARGO_TARGET_DIR:-$PWD/target}/release/hairpin"
    fi
    # Benchmarks run in the folder of their package.
    hairpin=$(realpath -m "$hairpin")
    set -- --hairpin "$hairpin" "$@"
    ;;
esac

case $name in
niq) rings device.txt niq ;;
packet)
    rings memory.txt memory
    rings coalesce-xdp.txt coalesce xdp
    rings coalesce-packet.txt coalesce packet
    rings af_xdp.txt af-xdp
    ;;
esac
# This one keeps its own record.
bench cli bench "$name" "$@"
note $?
if [ "$name" = niq ]; then
    part check.json "$hairpin" check --json
    part pcie.json "$hairpin" floor pcie --json
fi
exit "$worst"
