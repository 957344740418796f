#!/bin/sh
# Everything that `make test` checks. Steps go on after a failure, so one run shows all; the last line is the sum:
#
#     N passed, N failed, N skipped
#
# Format, lint and docs count as one check each. A test that cannot run here prints a line `skipped: NAME: REASON`; under CI=true, and as root,
# HAIRPIN_MUST_RUN=1 makes such a test fail instead.
cd "$(dirname "$0")/.." || exit 1
HAIRPIN_FOR=test
. scripts/setup.sh

root=
[ "$(id -u)" = 0 ] && root=yes
if [ "${CI:-}" = true ] || [ -n "$root" ]; then
    HAIRPIN_MUST_RUN=1
    export HAIRPIN_MUST_RUN
else
    echo "not root: what needs capabilities or network namespaces that this user may not have is skipped, with its reason"
fi

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

step() { printf '\n== %s\n' "$*"; }
check() {
    step "$@"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
# tool NAME COMMAND…: a check whose tool the toolchain may lack.
tool() {
    name=$1
    shift
    if cargo "$name" --version >/dev/null 2>&1; then
        check "$@"
    elif [ "${CI:-}" = true ]; then
        step "$@"
        echo "failed: cargo $name: this toolchain has none, and CI must run it"
        failed=$((failed + 1))
    else
        step "$@"
        echo "skipped: cargo $name: this toolchain has none; install it to run this check"
        skipped=$((skipped + 1))
    fi
}

tool fmt cargo fmt --all --check
tool clippy cargo clippy --workspace --all-targets --quiet -- -D warnings

# The output goes to the terminal and to a file that is summed up below; the status takes a file of its own, sh has no pipefail.
step cargo test --workspace
{
    cargo test --workspace --no-fail-fast 2>&1
    echo "cargo test ended with status $?"
} | tee "$log"

check env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# `test result: ok. 5 passed; 0 failed; 1 ignored; …`, one line per test program.
sums=$(awk '
    /^test result:/ { for (i = 1; i < NF; i++) { if ($(i + 1) ~ /^passed/) p += $i; if ($(i + 1) ~ /^failed/) f += $i; if ($(i + 1) ~ /^ignored/) s += $i } }
    /(^|[. ])skipped: / { s++ }
    /^cargo test ended with status/ { status = $NF }
    END { if (status != 0 && f == 0) f = 1; print p + 0, f + 0, s + 0 }' "$log")
# shellcheck disable=SC2086 # three numbers
set -- $sums
passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))

printf '\n'
grep -o 'skipped: .*' "$log"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
