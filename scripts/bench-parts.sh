# shellcheck shell=sh
# What the benchmarks of several parts share. Meant to be sourced with $record set, the directory of the record; $worst is then 0, 3 if a
# part missed a bound, 1 if one failed.

# shellcheck disable=SC2154
mkdir -p "$record" || exit 1
worst=0

# note STATUS: remembers how a part ended.
note() {
    case $1 in
    0) ;;
    3) [ "$worst" = 0 ] && worst=3 ;;
    *) worst=1 ;;
    esac
}

# part FILE COMMAND…: runs a benchmark, keeps what it prints, and goes on after one that misses.
part() {
    file=$1
    shift
    printf '\n== %s\n' "$*" >&2
    { "$@"; echo "ended with status $?"; } >"$record/$file"
    status=$(sed -n 's/^ended with status //p' "$record/$file" | tail -1)
    sed -i '/^ended with status [0-9]*$/d' "$record/$file"
    cat "$record/$file"
    note "$status"
}
