#!/bin/sh
# Prints a hash of the measured code, by which a record says what it is of: the sources of the crates in the measuring loop, without their tests, the hooks
# that a round trip passes in the kernel, the versions of the crates that are called there, the profile, and the compiler's
# flags. Cargo.toml lists the crates. The compiler is not in it.
cd "$(dirname "$0")/.." || exit 1
LC_ALL=C
export LC_ALL
crates=$(awk '/^\[/ { on = ($0 == "[profile.release.package]") } on && /\.opt-level = (3|"s")$/ { sub(/\..*/, ""); print }' Cargo.toml)
[ -n "$crates" ] || {
    echo "measured-code: Cargo.toml lists no crate in [profile.release.package]" >&2
    exit 1
}
{
    awk '/^\[/ { on = /^\[profile\.release/ } on && !/^ *(#|$)/' Cargo.toml
    for crate in $crates; do
        case $crate in
        hairpin-*) find "crates/${crate#hairpin-}" -type f \( -path '*/src/*' -o -path '*/bpf/*' \) ! -name tests.rs ! -name '*_tests.rs' ! -path '*/tests/*' | sort | xargs sha256sum ;;
        *) awk -v name="name = \"$crate\"" '$0 == name { print; getline; print }' Cargo.lock ;;
        esac
    done
    find crates/trace/bpf -type f | sort | xargs sha256sum
    grep -v '^#' packaging/rustc
} | sha256sum | cut -c 1-16
