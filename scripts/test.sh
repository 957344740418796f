#!/bin/sh
# Everything that `make test` checks. Steps go on after a failure, so one run shows all; the last line is the sum:
#
#     N passed, N failed, N skipped
#
# Format, lint and docs count as one check each. A test that cannot run here prints a line `NAME: SKIPPED: REASON`. Under CI=true, and as root
# where namespaces can be made, HAIRPIN_MUST_RUN=1 makes such a test fail instead.
cd "$(dirname "$0")/.." || exit 1
HAIRPIN_FOR=test
. scripts/setup.sh

# Namespaces are tried as root and as a user without privileges; some containers and distributions forbid the one or the other.
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
if [ "${CI:-}" = true ]; then
    HAIRPIN_MUST_RUN=1
elif [ "$(id -u)" != 0 ]; then
    echo "not root: what needs capabilities, or namespaces that this user may not make, is skipped with its reason"
elif ! unshare --net true 2>/dev/null; then
    echo "root, but without the right to make network namespaces (a container?): what needs them is skipped with its reason"
elif ! as_nobody unshare --user --net true 2>/dev/null; then
    echo "this system lets no ordinary user make namespaces: what needs that is skipped with its reason"
else
    HAIRPIN_MUST_RUN=1
fi
export HAIRPIN_MUST_RUN="${HAIRPIN_MUST_RUN:-0}"

log=$(mktemp) || exit 1
trap 'rm -f "$log"; go_ahead "$nice"' EXIT

# Where the kernel shares the cores between sessions (sched(7), autogroup), a neighbour of low priority in a session of its own gets as much as all tests
# together, and what spins is stopped for milliseconds. As root the tests go ahead of it, and the session gets its place back at the end.
go_ahead() { [ -z "$1" ] || echo "$1" 2>/dev/null >/proc/self/autogroup || :; }
nice=$(sed -n 's/.*nice //p' /proc/self/autogroup 2>/dev/null)
[ "$(id -u)" != 0 ] || [ -z "$nice" ] || go_ahead -10
passed=0 failed=0 skipped=0 skips=

step() { printf '\n== %s\n' "$*"; }
# skip WHY: a step that cannot run here, said now and once more beside the sum.
skip() {
    echo "$1"
    skips="$skips$1
"
    skipped=$((skipped + 1))
}
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
        echo "cargo $name: FAILED: this toolchain has none, and CI must run it"
        failed=$((failed + 1))
    else
        step "$@"
        skip "cargo $name: SKIPPED: this toolchain has none; install it to run this check"
    fi
}

tool fmt cargo fmt --all --check
# The checked-in BPF objects are what their sources compile to.
if command -v clang >/dev/null 2>&1 || [ "${CI:-}" = true ]; then
    check scripts/bpf.sh --check
else
    step scripts/bpf.sh --check
    skip "BPF objects: SKIPPED: no clang here; install clang and llvm to compare them with their sources"
fi

# The checked-in page is what its sources build to, and shows in a browser what it should.
page=
if scripts/web.sh --ready || [ "${CI:-}" = true ]; then
    page=yes
    check scripts/web.sh --check
else
    step scripts/web.sh --check
    skip "the report's page: SKIPPED: no node, or not its packages (see above); install nodejs, npm and chromium to build and try it"
fi

tool clippy cargo clippy --workspace --all-targets --quiet -- -D warnings

# Built first, where cargo can draw its progress; what fails here fails again below, and is counted there.
# shellcheck disable=SC2086,SC2154 # nothing, or one word, from setup.sh
cargo test --workspace --no-run $setup_quiet

# The output goes to the terminal and to a file that is summed up below; the status is its last line, as sh has no pipefail.
step cargo test --workspace
{
    cargo test --workspace --no-fail-fast 2>&1
    echo "cargo test ended with status $?"
} | tee "$log"

if [ -n "$page" ]; then
    step scripts/web.sh --test
    {
        scripts/web.sh --test 2>&1
        echo "the page's tests ended with status $?"
    } | tee -a "$log"
fi

check env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

# Undefined behaviour in what an interpreter can run. Only a nightly toolchain has Miri, so without one this is a skip, under CI=true too.
if scripts/miri.sh --ready; then
    check scripts/miri.sh
else
    step scripts/miri.sh
    skip "miri: SKIPPED: no toolchain here has it; rustup toolchain install nightly --component miri --component rust-src"
fi

# The harness prints `test result: ok. 5 passed; 0 failed; 1 ignored; …` per test program, a program without it
# `NAME: 5 passed, 0 failed, 1 skipped`; skips are counted by their own lines.
sums=$(awk '
    /^test result:/ { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1); if ($i == "ignored;") s += $(i - 1) } }
    /^[^ ]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $2; f += $4 }
    /: SKIPPED: / { s++ }
    /^cargo test ended with status/ { status = $NF }
    /^the page.s tests ended with status/ { if (status == 0) status = $NF }
    END { if (status != 0 && f == 0) f = 1; print p + 0, f + 0, s + 0 }' "$log")
# shellcheck disable=SC2086 # three numbers
set -- $sums
passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))

printf '\n%s' "$skips"
grep ': SKIPPED: ' "$log"
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
