#!/bin/sh
# What `make bench-explain` measures; the record goes to runs/DATE-HOST/explain. Ends with 3 if a bound is missed, with 1 if a part failed.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

exec cargo bench --quiet --package hairpin-cli --bench explain --profile dev -- "$@"
