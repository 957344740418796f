#!/bin/sh
# What `make bench-niq` measures; the record goes to runs/DATE-HOST/niq. Ends with 3 if a bound is missed, with 1 if a part failed.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

record="runs/$(date -u +%Y-%m-%d)-$(cat /proc/sys/kernel/hostname)/niq"
. scripts/bench-parts.sh

part device.txt cargo bench --quiet --package hairpin-packet --bench niq --profile dev
# This one keeps its own record there, and builds the hairpin of the parts after it.
cargo bench --quiet --package hairpin-cli --bench niq --profile dev -- --out "$PWD/$record" "$@"
note $?
hairpin="${CARGO_TARGET_DIR:-target}/debug/hairpin"
part check.json "$hairpin" check --json
part pcie.json "$hairpin" floor pcie --json
exit "$worst"
