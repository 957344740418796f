#!/bin/sh
# Runs those tests under Miri that it can interpret: undefined behaviour (aliasing, races, memory out of bounds) in them is an error. No system call but a
# few, no assembler, no loom: what maps files, opens sockets or starts processes is left out below, by name.
#
#     scripts/miri.sh            with `cargo miri`, else `cargo +nightly miri`; about a minute once it is built
#     scripts/miri.sh --ready    whether there is one
cd "$(dirname "$0")/.." || exit 1

if cargo miri --version >/dev/null 2>&1; then
    toolchain=
elif cargo +nightly miri --version >/dev/null 2>&1; then
    toolchain=+nightly
else
    exit 1
fi
[ "${1:-}" = --ready ] && exit 0

# A few cases of each property: one takes thousands of times as long as outside.
export PROPTEST_CASES="${PROPTEST_CASES:-4}"
export MIRIFLAGS="${MIRIFLAGS:--Zmiri-disable-isolation}"

status=0
# miri PACKAGE FILTERS…: the unit tests whose names contain one of the filters.
miri() {
    package=$1
    shift
    # shellcheck disable=SC2086 # no word where the default toolchain has it
    cargo $toolchain miri test --quiet --package "$package" --lib -- "$@" || status=1
}

# The copies of niq's lines are left out too: every length and place of them takes Miri many minutes.
miri hairpin-sys umem:: packet_socket::ring:: process::inherited::tests::what_the_parent ring::tests::a_ring ring::tests::a_full ring::tests::an_index
miri hairpin-wire --skip prop
miri hairpin-units
exit $status
