# shellcheck shell=sh
# Tools of Python that build packages, in versions of their own below target/tools; nothing is installed on the host. Meant to be sourced after
# scripts/setup.sh.
tools=${CARGO_TARGET_DIR:-$PWD/target}/tools
PATH="$tools/bin:$tools/venv/bin:$PATH"

# What zig links runs with an older glibc than this host's.
if [ ! -x "$tools/venv/bin/cargo-zigbuild" ]; then
    setup_say "fetching zig and the Python build tools"
    python3 -m venv "$tools/venv" && "$tools/venv/bin/pip" -q install --disable-pip-version-check \
        ziglang==0.15.2 cargo-zigbuild==0.24.0 build==1.6.1 hatchling==1.33.0 || setup_fail "the tools that build packages cannot be fetched from the Python index"
fi
