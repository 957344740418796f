#!/bin/sh
# What `make bench-packet` measures; the record goes to runs/DATE-HOST/packet. Ends with 3 if a bound is missed, with 1 if a part failed.
cd "$(dirname "$0")/.." || exit 1
HAIRPIN_FOR=bench-packet
. scripts/setup.sh

record="runs/$(date -u +%Y-%m-%d)-$(cat /proc/sys/kernel/hostname)/packet"
. scripts/bench-parts.sh

part memory.txt cargo bench --quiet --package hairpin-packet --bench memory --profile dev
part coalesce-xdp.txt cargo bench --quiet --package hairpin-packet --bench coalesce --profile dev -- xdp
part coalesce-packet.txt cargo bench --quiet --package hairpin-packet --bench coalesce --profile dev -- packet
part af_xdp.txt cargo bench --quiet --package hairpin-packet --bench af_xdp --profile dev
# This one keeps its own record there.
cargo bench --package hairpin-cli --bench packet --profile dev
note $?
exit "$worst"
