#!/bin/sh
# Records the demonstrations: of every docs/demos/NAME.txt a NAME.cast and a NAME.svg beside it.
#
#     scripts/demos.sh              all of them
#     scripts/demos.sh NAME...      only these
#
# It takes root (the hooks of explain), tmux, python3 and redis-tools. What it starts it ends, by process id.
cd "$(dirname "$0")/.." || exit 1
. ./scripts/setup.sh
setup_has tmux || setup_apt tmux
setup_has redis-benchmark || setup_apt redis-tools

# The server's program, under whichever name this system has it.
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 143' HUP INT TERM
redis=$(command -v redis-server || command -v redis-check-rdb) && ln -s "$redis" "$scratch/redis-server"
PATH="$PATH:$scratch"
for tool in tmux python3 redis-server redis-benchmark; do
    setup_has "$tool" || setup_fail "no $tool here: install the packages tmux, python3 and redis-tools"
done
cargo build $setup_quiet --workspace --bin hairpin || exit 1
PATH="$(realpath -m "${CARGO_TARGET_DIR:-target}")/debug:$PATH"
# The runs of a demonstration are no runs of whoever records it.
HAIRPIN_RUNS="$scratch/runs"

# A Redis of one's own may serve at the usual port.
REDIS_PORT=6379
while redis-cli -p "$REDIS_PORT" ping >/dev/null 2>&1; do REDIS_PORT=$((REDIS_PORT + 1)); done
export PATH HAIRPIN_RUNS REDIS_PORT

[ $# -gt 0 ] || set -- $(cd docs/demos && ls ./*.txt)
for name in "$@"; do
    name=$(basename "$name" .txt)
    python3 scripts/record.py "docs/demos/$name.txt" || exit 1
    size=$(wc -c <"docs/demos/$name.svg")
    [ "$size" -le 60000 ] || setup_say "docs/demos/$name.svg has $size bytes: shorten the demonstration, 60000 are enough"
done
