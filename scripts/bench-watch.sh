#!/bin/sh
# What `make bench-watch` measures; the record goes to runs/DATE-HOST/watch. Ends with 3 if a bound is missed, with 1 if it failed.
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh
# A view needs a terminal to draw on.
setup_has tmux || setup_apt tmux || setup_fail "please install tmux (as root: apt-get install tmux), then run make again"

exec cargo bench --quiet --package hairpin-cli --bench watch --profile dev -- "$@"
