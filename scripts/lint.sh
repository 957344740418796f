#!/bin/sh
# The checks that only read and compile the sources: format, clippy, docs, Miri. One that this toolchain lacks prints a line `NAME: SKIPPED: REASON`;
# under CI=true that is a failure, but for Miri, which only nightly toolchains have. The last line is the sum:
#
#     lint: N passed, N failed, N skipped
#
#     scripts/lint.sh
#     setsid scripts/lint.sh --behind    at the lowest priority, in a session of its own, beside what measures
cd "$(dirname "$0")/.." || exit 1
if [ "${1:-}" = --behind ]; then
    # SCHED_IDLE takes what nobody else wants of a core. Where the kernel shares the cores between sessions, this one gets the least (sched(7)).
    echo 19 2>/dev/null >/proc/self/autogroup || :
    chrt --idle --pid 0 $$ 2>/dev/null || renice -n 19 $$ >/dev/null
fi
passed=0 failed=0 skipped=0

check() {
    printf '\n== %s\n' "$*"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
# tool NAME COMMAND…: a check whose tool the toolchain may lack.
tool() {
    name=$1
    shift
    if cargo "$name" --version >/dev/null 2>&1; then
        check "$@"
    elif [ "${CI:-}" = true ]; then
        echo "cargo $name: FAILED: this toolchain has none, and CI must run it"
        failed=$((failed + 1))
    else
        echo "cargo $name: SKIPPED: this toolchain has none; install it to run this check"
        skipped=$((skipped + 1))
    fi
}

tool fmt cargo fmt --all --check
tool clippy cargo clippy --workspace --all-targets --quiet -- -D warnings
check env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
# Undefined behaviour in what an interpreter can run.
if scripts/miri.sh --ready; then
    check scripts/miri.sh
else
    echo "miri: SKIPPED: no toolchain here has it; rustup toolchain install nightly --component miri --component rust-src"
    skipped=$((skipped + 1))
fi

printf 'lint: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
