#!/bin/sh
# What `make bench-compare` measures; the record goes to runs/DATE-HOST/compare. Ends with 3 if a bound is missed, with 1 if a part failed.
# Takes the options of the benchmark, such as --part null --trials 20.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

exec cargo bench --quiet --package hairpin-cli --bench compare --profile dev -- "$@"
