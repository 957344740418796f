#!/bin/sh
# The checks that only read and compile the sources: format, BPF objects, the report's page, clippy, docs, Miri. One that cannot run here prints a line
# `NAME: SKIPPED: REASON`; under CI=true it fails instead, but for Miri, which only nightly toolchains have. The last line is the sum:
#
#     lint: N passed, N failed, N skipped
#
#     scripts/lint.sh
#     scripts/lint.sh --tests    compiles the tests too, after its own checks
cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"
tests=
[ "${1:-}" != --tests ] || tests=1
passed=0 failed=0 skipped=0
began=$(date +%s)

# check COMMAND…
check() {
    seconds=$(($(date +%s) - began))
    printf '\n== %d:%02d %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
    if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}
# skip NAME REASON
skip() {
    if [ "${CI:-}" = true ] && [ "$1" != miri ]; then
        echo "$1: FAILED: CI must run it, and $2"
        failed=$((failed + 1))
    else
        echo "$1: SKIPPED: $2"
        skipped=$((skipped + 1))
    fi
}
has() { command -v "$1" >/dev/null 2>&1; }

if cargo fmt --version >/dev/null 2>&1; then
    check cargo fmt --all --check
else
    skip "cargo fmt" "this toolchain has none; install it to run this check"
fi
# The checked-in BPF objects are what their sources compile to.
if has clang && has llvm-objcopy; then
    check scripts/bpf.sh --check
else
    skip "BPF objects" "there is no clang here; install clang and llvm to compare them with their sources"
fi
# The checked-in page is what its sources build to.
if scripts/web.sh --ready; then
    check scripts/web.sh --check
else
    skip "the report's page" "there is no node here, or not its packages (see above); install nodejs and npm to build and compare it"
fi
# What `cargo install` and the registry would get, without its compilation, which the packages' tests have.
if [ "$(cargo --version | awk '{ split($2, v, "."); print (v[2] + 0 >= 90) }')" = 1 ]; then
    check cargo package --workspace --locked --no-verify --allow-dirty --quiet
else
    skip "cargo package" "crates that depend on each other take cargo 1.90, and this is $(cargo --version | cut -d' ' -f2)"
fi
# The Python reader knows every kind of record, and its rows are those of the command's CSV.
command=$(realpath -m "${CARGO_TARGET_DIR:-target}/debug/hairpin")
if ! [ -x "$command" ]; then
    skip "the Python reader's rows" "there is no command; make demo builds it"
elif python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    check env -C python/tests PATH="${command%/*}:$PATH" HAIRPIN_COMMAND="$command" PYTHONPATH=.. PYTHONDONTWRITEBYTECODE=1 python3 -m unittest test_rows test_load test_histogram
else
    skip "the Python reader's rows" "there is no Python 3.9 or newer here; install python3"
fi
set --
if cargo clippy --version >/dev/null 2>&1; then
    check cargo clippy --workspace --all-targets --quiet -- -D warnings
    # Called as clippy calls cargo, so that the docs take the crates as clippy has checked them; if a clippy calls it otherwise, they are
    # checked again.
    driver=$(rustc --print sysroot)/bin/clippy-driver
    [ ! -x "$driver" ] || set -- "RUSTC_WORKSPACE_WRAPPER=$driver" CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
else
    skip "cargo clippy" "this toolchain has none; install it to run this check"
fi
check env "$@" RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
# Last of what takes cargo's lock: when the tests beside it want the lock, it is free, or held for what they need. What does not compile fails again where the
# tests are run, and is counted there.
[ -z "$tests" ] || RUSTC_WRAPPER=${RUSTC_WRAPPER:-$PWD/scripts/unit-tests-rustc} cargo test --workspace --lib --bins --tests --no-run --quiet
# Undefined behaviour in what an interpreter can run.
if scripts/miri.sh --ready; then
    check scripts/miri.sh
else
    skip miri "no toolchain here has it; rustup toolchain install nightly --component miri --component rust-src"
fi

printf 'lint: %d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
