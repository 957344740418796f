# shellcheck shell=sh
# The entries of this host's apt, in both formats of sources.list(5), for those that fetch packages without installing them. Meant to be sourced.

# sources: a line an entry, SUITE|URI|COMPONENTS|[OPTIONS].
sources() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb  *\(\[[^]]*\]\)\{0,1\} *\([^ ]*\)  *\([^ ]*\)  *\(.*\)/\3|\2|\4|\1/p'
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -e "$file" ] || continue
        awk -v RS= '{
            split("", field); n = split($0, line, "\n"); signed = ""
            for (i = 1; i <= n; i++) if (match(line[i], /^[A-Za-z-]+:/)) field[tolower(substr(line[i], 1, RLENGTH - 1))] = substr(line[i], RLENGTH + 1)
            if (field["types"] !~ /(^| )deb( |$)/ || field["enabled"] ~ /no/) next
            gsub(/ /, "", field["signed-by"])
            if (field["signed-by"] ~ /^\//) signed = "[signed-by=" field["signed-by"] "]"
            split(field["uris"], uri, " "); m = split(field["suites"], suite, " ")
            for (i = 1; i <= m; i++) print suite[i] "|" uri[1] "|" field["components"] "|" signed
        }' "$file"
    done
}
