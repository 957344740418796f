#!/bin/sh
# What `make bench-packet` measures; the record goes to runs/DATE-HOST/packet. Ends with 3 if a bound is missed, with 1 if a part failed.
cd "$(dirname "$0")/.." || exit 1
HAIRPIN_FOR=bench-packet
. scripts/setup.sh

record="runs/$(date -u +%Y-%m-%d)-$(cat /proc/sys/kernel/hostname)/packet"
mkdir -p "$record" || exit 1
worst=0
# part FILE COMMAND…: runs a benchmark, keeps what it prints, and goes on after one that misses.
part() {
    file=$1
    shift
    printf '\n== %s\n' "$*" >&2
    { "$@"; echo "ended with status $?"; } >"$record/$file"
    status=$(sed -n 's/^ended with status //p' "$record/$file" | tail -1)
    sed -i '/^ended with status [0-9]*$/d' "$record/$file"
    cat "$record/$file"
    case $status in
    0) ;;
    3) [ "$worst" = 0 ] && worst=3 ;;
    *) worst=1 ;;
    esac
}

part memory.txt cargo bench --quiet --package hairpin-packet --bench memory --profile dev
part coalesce-xdp.txt cargo bench --quiet --package hairpin-packet --bench coalesce --profile dev -- xdp
part coalesce-packet.txt cargo bench --quiet --package hairpin-packet --bench coalesce --profile dev -- packet
# This one keeps its own record there.
cargo bench --package hairpin-cli --bench packet --profile dev
status=$?
case $status in
0) ;;
3) [ "$worst" = 0 ] && worst=3 ;;
*) worst=1 ;;
esac
exit "$worst"
