#!/bin/sh
# Compiles the BPF programs. The objects are checked in, so that a build needs no clang.
#
#     scripts/bpf.sh            compiles each crates/*/bpf/*.bpf.c to the object beside it
#     scripts/bpf.sh --check    compiles into a temporary folder and compares
#
# What is compared is the bytes of the sections with programs, constants and variables; not the types and sizes of maps, which are in BTF alone. Where the compiler's
# version is that of the checked-in object (its name is in the object), the whole file is compared.
cd "$(dirname "$0")/.." || exit 1
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM
status=0

# compile SOURCE OBJECT: no path and no date gets into the object, and BTF stays where debug information is taken away.
compile() {
    (
        cd "$(dirname "$1")" &&
            clang --target=bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -fno-ident -fdebug-compilation-dir=. -c "$(basename "$1")" -o "$2"
    ) && llvm-strip --strip-debug "$2" && llvm-objcopy --remove-section=.llvm_addrsig "$2"
}

# sections OBJECT FOLDER: each section that reaches the kernel as a file.
sections() {
    llvm-readelf --sections --wide "$1" | sed -n 's/^ *\[ *[0-9]*\] *\([^ ]*\) *PROGBITS .*/\1/p' | grep -v '^\.BTF' | while read -r section; do
        llvm-objcopy --dump-section="$section=$2/$(echo "$section" | tr / _)" "$1" /dev/null || return 1
    done
}

for source in crates/*/bpf/*.bpf.c; do
    object="${source%.c}.o"
    if [ "${1:-}" != --check ]; then
        compile "$source" "$PWD/$object" && echo "$object: compiled" || status=1
        continue
    fi
    compile "$source" "$work/new.o" || {
        status=1
        continue
    }
    if cmp -s "$work/new.o" "$object"; then
        echo "$object: the same, byte for byte"
        continue
    fi
    rm -rf "$work/old" "$work/new" && mkdir "$work/old" "$work/new"
    sections "$object" "$work/old" && sections "$work/new.o" "$work/new"
    if [ -n "$(ls "$work/new")" ] && diff -r "$work/old" "$work/new" >/dev/null; then
        echo "$object: the same programs, constants and variables; other bytes differ (another compiler version)"
    else
        echo "$object: differs from what $source compiles to with $(clang --version | head -n 1): run scripts/bpf.sh and check the object in"
        status=1
    fi
done
exit $status
