#!/bin/sh
# Everything that `make test` checks. Steps go on after a failure, so one run shows all; the last line is the sum:
#
#     N passed, N failed, N skipped
#
# Up to three tests, or cases of emulated machines, that failed are run once more, one after the other: a busy neighbour fails a test of time once, a fault fails it twice. What passes then
# is named before the sum: `NAME: PASSED AT THE SECOND TRY`.
#
#     build of `alone` ────────────┬─▶ `alone`: tests by themselves ─▶ `main`, the crates' own, two emulated machines ─┬─▶ tests that want idle cores ─▶ sum
#     set-up ─▶ page in a browser ─┴─▶ scripts/lint.sh, examples of the docs, at the lowest priority ──────────────────┘
#
# A test that cannot run here prints a line `NAME: SKIPPED: REASON`. Under CI=true, and as root where namespaces can be made, HAIRPIN_MUST_RUN=1 makes such
# a test fail instead.
cd "$(dirname "$0")/.." || exit 1
# First what a build takes.
HAIRPIN_FOR=demo
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

scratch=$(mktemp -d) || exit 1
log=$scratch/tests
# 1 if the log could not be written whole, as on a full disk: then its sum is none.
lost=
page=
behind=
beside=
emulated=
# To set up or end an XDP program, a ring or a hook, the kernel waits for an RCU grace period of some 16 ms, in which a side that spins takes a core. While the
# tests run, grace periods are expedited (rcupdate.rcu_expedited in Documentation/admin-guide/kernel-parameters.txt). After a kill -9 they stay so until the next boot.
expedited=/sys/kernel/rcu_expedited
# hurry FROM TO: fails if the setting is not FROM, or is not this user's to change.
hurry() { { [ "$(cat $expedited)" = "$1" ] && echo "$2" >$expedited; } 2>/dev/null; }
hurried=
[ "$HAIRPIN_MUST_RUN" = 0 ] || ! hurry 0 1 || hurried=1
# What runs beside leads a session of its own, so it ends by its group.
end() { [ -z "$1" ] || kill -- "-$1" 2>/dev/null; }
trap 'end "$page"; end "$behind"; end "$beside"; end "$emulated"; [ -z "$hurried" ] || hurry 1 0; rm -rf "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' HUP TERM

began=$(date +%s)
# step NAME: a heading, with the minutes and seconds since the start.
step() {
    seconds=$(($(date +%s) - began))
    printf '\n== %d:%02d %s\n' $((seconds / 60)) $((seconds % 60)) "$*"
}
# tests COMMAND…: its output goes to the terminal and to a file that is summed up below; the status is its last line, as sh has no pipefail.
tests() {
    step "$@"
    {
        "$@" 2>&1
        echo "tests ended with status $?"
    } | tee -a "$log" || lost=1
}

# ended PROCESS FILE NAME: waits for what ran beside, and shows and counts what it printed.
ended() {
    wait "$1"
    status=$?
    step "$3"
    {
        cat "$2"
        echo "tests ended with status $status"
    } | tee -a "$log" || lost=1
}

# What the tests take beyond a build is brought beside the first one; then the page is tried, under CI whatever is missing.
# shellcheck disable=SC2016 # for the shell that is started
setsid sh -c '
HAIRPIN_FOR=test
. scripts/setup.sh
if scripts/web.sh --ready || [ "${CI:-}" = true ]; then exec scripts/web.sh --test; fi
echo "the page of a report in a browser: SKIPPED: it takes node, its packages and chromium"
' >"$scratch/page" 2>&1 &
page=$!
# Built first, where cargo can draw its progress; what fails here fails again below, and is counted there.
step cargo test --workspace --test alone --no-run
# shellcheck disable=SC2086,SC2154 # nothing, or one word, from setup.sh
cargo test --workspace --test alone --no-run $setup_quiet
# Until the page has been tried, the build of `main` has the cores. It is ended before the next step, which would wait for cargo's lock. The crates' own tests
# are built later: one of them takes 20 s to compile, and an end in the middle would lose that work.
setsid scripts/behind.sh cargo test --workspace --test main --no-run --quiet >/dev/null 2>&1 &
behind=$!
ended "$page" "$scratch/page" "set-up of the tests, scripts/web.sh --test"
page=
end "$behind"
wait "$behind"
behind=
# Where those tools were unpacked is part of the PATH; if the set-up failed, it says so again and ends here.
HAIRPIN_FOR=test
. scripts/setup.sh

# The tests that run by themselves wait for most of their time, and what they leave is enough for checks, the build of the others and the examples of the
# docs. All of it is built with --workspace: a build of one crate takes its dependencies with other features, and compiles them, and so itself, once more.
# It begins once those tests run: before, they would wait for its lock of cargo.
# shellcheck disable=SC2016 # for the shell that is started
setsid scripts/behind.sh sh -c '
looks=0
until grep -q "^ *Running" "$0" || [ $((looks += 1)) -gt 300 ]; do sleep 0.2; done
scripts/lint.sh --tests; status=$?
cargo test --workspace --no-fail-fast --doc && exit $status' "$log" >"$scratch/behind" 2>&1 &
behind=$!

# Tests of settings, causes and comparisons that show only on cores which rest.
idle='explain_detectors:: newcomer:: idle_states:: gates::'
# shellcheck disable=SC2046 # words
tests cargo test --workspace --no-fail-fast --test alone -- $(printf -- '--skip %s ' $idle)
# They wait most of their time, so twice as many as there are cores run at once, and beside them the crates' own tests and a case of two emulated machines,
# whose processors would get in the way of what measures; make test-rig runs the other cases.
RUSTC_WRAPPER=${RUSTC_WRAPPER:-$PWD/scripts/unit-tests-rustc} setsid cargo test --workspace --no-fail-fast --lib --bins >"$scratch/beside" 2>&1 &
beside=$!
RIG_PATIENCE=4 setsid rig/run short >"$scratch/emulated" 2>&1 &
emulated=$!
RUST_TEST_THREADS=$((2 * $(nproc)))
export RUST_TEST_THREADS
tests cargo test --workspace --no-fail-fast --test main
unset RUST_TEST_THREADS
ended "$beside" "$scratch/beside" "cargo test --workspace --no-fail-fast --lib --bins"
beside=
ended "$emulated" "$scratch/emulated" "rig/run short"
emulated=
ended "$behind" "$scratch/behind" "scripts/lint.sh, cargo test --doc"
behind=
# shellcheck disable=SC2086 # words
tests cargo test --workspace --no-fail-fast --test alone -- $idle

# sums FILE: how many passed, failed and were skipped. The harness prints `test result: ok. 5 passed; 0 failed; 1 ignored; …` per test program, a program
# without it `NAME: 5 passed, 0 failed, 1 skipped`; skips are counted by their own lines. A step that ends with an error and names no failure counts as one.
sums() {
    awk '
    /^test result:/ { for (i = 2; i <= NF; i++) { if ($i == "passed;") p += $(i - 1); if ($i == "failed;") f += $(i - 1); if ($i == "ignored;") s += $(i - 1) } }
    /^[^ ]+: [0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ { p += $2; f += $4 }
    /: SKIPPED: / { s++ }
    /^tests ended with status/ { if ($NF != 0 && f == before) f++; before = f }
    END { print p + 0, f + 0, s + 0 }' "$1"
}
# why FILE…: each test that failed, after the last panic before it.
why() {
    cat "$@" 2>/dev/null | awk '
    /^stack backtrace:/ { message = 0 }
    message > 0 { panic = panic "\n    " substr($0, 1, 400); message-- }
    / panicked at / { panic = "    " $0; message = 3 }
    /^test .* FAILED$|: FAILED|^error(\[E[0-9]+\])?:|^lint: / { if (panic != "") print panic; print; panic = "" }' | head -80
}
# again FILE: the tests to run once more; none where a program ended without its result, or where something else failed too.
again() {
    awk '
    /^test [^ ]+ \.\.\. FAILED$/ { print $2 }
    /: FAILED after [0-9.]+ s: / { sub(/: FAILED after .*/, ""); print }
    /^[a-z0-9-]+@[^ ]+: FAILED: / { sub(/: FAILED: .*/, ""); print }
    /process didn.t exit successfully/ && !/\(exit status: 1\)/ { print "and a program that ended without its result" }' "$1"
}

# shellcheck disable=SC2046 # three numbers
set -- $(sums "$log")
passed=$1 failed=$2 skipped=$3
names=$(again "$log")
second=
if [ -n "$names" ] && [ "$failed" -le 3 ] && [ "$(echo "$names" | wc -l)" = "$failed" ]; then
    first=$log
    log=$scratch/again
    set --
    machines=
    # A name may have spaces, and that of a case of the emulated machines has an @.
    while read -r name; do
        case $name in *@*) machines="$machines $name" ;; *) set -- "$@" "$name" ;; esac
    done <<NAMES
$names
NAMES
    [ $# = 0 ] || RUST_TEST_THREADS=1 tests cargo test --workspace --no-fail-fast --lib --bins --tests -- --exact "$@"
    # shellcheck disable=SC2086 # words
    [ -z "$machines" ] || tests rig/run $machines
    # shellcheck disable=SC2046 # three numbers
    set -- $(sums "$log")
    if [ "$1" -ge "$failed" ] && [ "$2" = 0 ]; then
        second=$(echo "$names" | sed 's/$/: PASSED AT THE SECOND TRY/')
        passed=$((passed + failed)) failed=0
    fi
    log=$first
fi

echo
grep ': SKIPPED: ' "$log"
# Where only the end of a log is kept, it names what failed.
[ "$failed" = 0 ] || why "$log" "$scratch/again"
[ -z "$second" ] || echo "$second"
if [ -n "$lost" ]; then
    echo "the log of the tests: FAILED: it could not be written whole; is there room in ${TMPDIR:-/tmp}?"
    failed=$((failed + 1))
fi
printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ]
