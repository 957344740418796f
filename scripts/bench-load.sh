#!/bin/sh
# What `make bench-load` measures; the record goes to runs/DATE-HOST/load. Ends with 3 if a bound is missed, with 1 if it failed.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

exec cargo bench --quiet --package hairpin-cli --bench load --profile dev -- "$@"
