#!/bin/sh
# Builds the report's page, crates/report/web, into the one file that is checked in, so that a build of Hairpin needs no node.
#
#     scripts/web.sh            builds crates/report/web/dist/report.html
#     scripts/web.sh --check    looks at format and types, builds into a temporary folder and compares
#     scripts/web.sh --test     tests the checked-in page in a browser; the last line is the sum
#     scripts/web.sh --ready    true if node, npm and the packages are here, else says what is missing
#
# The packages come from npm as package-lock.json pins them; they are fetched only where they are missing or of another version of that file.
cd "$(dirname "$0")/../crates/report/web" || exit 1
PAGE=dist/report.html

say() { printf '%s\n' "$*" >&2; }

ready() {
    command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || {
        say "no node or npm here: install the packages nodejs and npm"
        return 1
    }
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 18 || (a === 18 && b >= 20) ? 0 : 1)' || {
        say "node $(node --version) is too old: 18.20 or newer builds the page"
        return 1
    }
    # npm writes the first of these last, and takes all away before it fetches: without network a file that git wrote anew must not bring that about.
    if [ -e node_modules/.package-lock.json ]; then
        cmp -s node_modules/.fetched-by package-lock.json && return 0
        [ -e node_modules/.fetched-by ] || [ node_modules/.package-lock.json -ot package-lock.json ] || return 0
    fi
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2 && cp package-lock.json node_modules/.fetched-by && return 0
    say "npm could not fetch the packages that build and test the page (package-lock.json)"
    return 1
}

build() { node_modules/.bin/vite build --logLevel warn --emptyOutDir --outDir "$1"; }

case "${1:-}" in
--ready) ready ;;
--check)
    ready || exit 1
    work=$(mktemp -d) || exit 1
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
    node_modules/.bin/prettier --check --log-level warn . || exit 1
    node_modules/.bin/tsc --noEmit || exit 1
    build "$work" || exit 1
    if cmp -s "$work/report.html" "$PAGE"; then
        echo "$PAGE: the same, byte for byte"
    else
        echo "$PAGE: differs from what its sources build to: run scripts/web.sh and check it in"
        exit 1
    fi
    ;;
--test)
    ready || exit 1
    node --test --test-reporter=./tests/reporter.js tests/*.test.js
    ;;
"")
    ready || exit 1
    node_modules/.bin/tsc --noEmit && build dist && echo "$PAGE: $(wc -c <"$PAGE") bytes"
    ;;
*)
    say "usage: scripts/web.sh [--check | --test | --ready]"
    exit 2
    ;;
esac
