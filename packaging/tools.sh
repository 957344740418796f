# shellcheck shell=sh
# Tools of Python that build packages, in versions of their own below target/tools; nothing is installed on the host. Meant to be sourced after
# scripts/setup.sh.
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
PATH="$tools/bin:$tools/venv/bin:$PATH"

# What zig links runs with an older glibc than this host's.
tools_wanted='ziglang==0.15.2 cargo-zigbuild==0.24.0 build==1.6.1 hatchling==1.33.0'
# Written last: what was interrupted, or is of other versions, is fetched anew.
if [ "$(cat "$tools/venv/complete" 2>/dev/null)" != "$tools_wanted" ]; then
    setup_say "fetching zig and the Python build tools"
    # shellcheck disable=SC2086 # words
    python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" -q install --disable-pip-version-check $tools_wanted && echo "$tools_wanted" >"$tools/venv/complete" ||
        setup_fail "the tools that build packages cannot be fetched from the Python index"
fi
