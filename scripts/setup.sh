# shellcheck shell=sh
# Brings what Hairpin's make targets need, and only what is missing. Meant to be sourced, so that the PATH it finds stays:
#
#     HAIRPIN_FOR=test; . scripts/setup.sh
#
# HAIRPIN_FOR is demo (default), test, bench, bench-flows, bench-packet, bench-requests, packages or test-packages. Packages are installed as root directly, otherwise through `sudo -n`; where
# neither is possible one line says what to install, and the shell ends with status 1. A second run only looks (well under 1 s).

PATH="$PATH:/usr/sbin:/sbin"
export PATH

# What cargo keeps for a build after a small change makes a first build a fifth slower and its folder eight times as large, so it is kept only where somebody
# already builds that way.
if [ -z "$(ls -A "${CARGO_TARGET_DIR:-target}/debug/incremental" 2>/dev/null)" ]; then
    CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
    export CARGO_INCREMENTAL
fi

setup_say() { printf 'set-up: %s\n' "$*" >&2; }
setup_fail() {
    setup_say "$*"
    exit 1
}
setup_has() { command -v "$1" >/dev/null 2>&1; }

# True if packages can be installed: apt is here, and this is root or somebody whom sudo asks for no password.
setup_may_install() { setup_has apt-get && { [ "$(id -u)" = 0 ] || { setup_has sudo && sudo -n true 2>/dev/null; }; }; }
# Where sudo lets it, apt keeps the proxy that only the environment names.
setup_as_root() {
    setup_keep="--preserve-env=http_proxy,https_proxy,no_proxy"
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -n "${http_proxy:-}${https_proxy:-}" ] && sudo -n "$setup_keep" true 2>/dev/null; then
        sudo -n "$setup_keep" "$@"
    else
        sudo -n "$@"
    fi
}

# The lists of packages, once.
setup_update() {
    if [ -z "${setup_updated:-}" ]; then
        setup_updated=1
        setup_as_root apt-get -qq -o Acquire::Retries=3 update >&2 || setup_say "apt-get update failed; trying with the lists that are here"
    fi
}

# setup_apt PACKAGE…: installs, never removes anything, asks nothing. stdout belongs to the target that called, so apt talks on stderr. A fresh machine may be
# about to update itself, so it waits for dpkg.
setup_apt() {
    setup_may_install || return 1
    setup_say "installing $*"
    setup_update
    setup_as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install -y --no-install-recommends --no-remove "$@" >&2
}

# setup_unpack COMMAND PACKAGE: brings a program without installing its package, which would start a service on this host. It is unpacked beside the
# build's outputs, and found there by PATH.
setup_unpack() {
    setup_folder="${CARGO_TARGET_DIR:-$PWD/target}/unpacked"
    PATH="$PATH:$setup_folder/usr/bin:$setup_folder/usr/sbin"
    # What was unpacked counts once its mark is there: an unpacking that is cut off leaves half a program.
    setup_mark="$setup_folder/$2.done"
    case $(command -v "$1") in
    '') ;;
    "$setup_folder"/*) [ ! -e "$setup_mark" ] || return 0 ;;
    *) return 0 ;;
    esac
    setup_has apt-get && setup_has dpkg-deb && mkdir -p "$setup_folder" || return 1
    setup_say "unpacking $2 into $setup_folder"
    # As the user that this is, whose folder it is. An earlier one that was interrupted may have left another version.
    setup_fetch() { (cd "$setup_folder" && rm -f "$1"_*.deb && apt-get -qq -o Acquire::Retries=3 -o APT::Sandbox::User= download "$1" >&2); }
    setup_fetch "$2" || { setup_may_install && setup_update && setup_fetch "$2"; } || return 1
    (cd "$setup_folder" && dpkg-deb -x "$2"_*.deb . && rm -f "$2"_*.deb && : >"$setup_mark") || return 1
    hash -r
    setup_has "$1"
}

# memcached, with the libraries that one that was unpacked may lack.
setup_memcached() { setup_unpack memcached memcached && { setup_starts memcached || setup_apt libevent-2.1-7 libsasl2-2; }; }

# True if each of these programs starts: one that was unpacked may lack a library.
setup_starts() {
    for setup_program in "$@"; do
        "$setup_program" --version >/dev/null 2>&1 || return 1
    done
}

# setup_at_least HAVE WANT: compares versions such as 1.95.0 and 1.88.
setup_at_least() {
    awk -v have="$1" -v want="$2" 'BEGIN {
        n = split(want, w, "."); split(have, h, ".")
        for (i = 1; i <= n; i++) { if (h[i] + 0 != w[i] + 0) exit !(h[i] + 0 > w[i] + 0) }
    }'
}

setup_new_enough() {
    setup_have=$(cargo --version 2>/dev/null | awk '{ print $2 }')
    setup_rustc=$(rustc --version 2>/dev/null | awk '{ print $2 }')
    [ -n "$setup_have" ] && [ -n "$setup_rustc" ] || return 1
    setup_at_least "$setup_have" "$setup_want" && setup_at_least "$setup_rustc" "$setup_want"
}

# The version in an apt candidate of $1, such as 1.96.0 out of 1.96.0+dfsg1-1. apt translates its words.
setup_candidate() {
    LC_ALL=C apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { sub(/[^0-9.].*/, "", $2); print $2 }'
}

# Another way to a compiler: Debian brings newer ones (cargo-web) as security updates, and a bare debootstrap leaves their suite out.
setup_security() {
    setup_has apt-cache && ! apt-cache policy 2>/dev/null | grep -q -- '-security' || return 0
    # shellcheck disable=SC1090,SC1091 # os-release(5) is meant to be read so
    (
        setup_release=${HAIRPIN_OS_RELEASE:-/etc/os-release}
        [ -r "$setup_release" ] || exit 0
        . "$setup_release"
        [ "${ID:-}" = debian ] && [ -n "${VERSION_CODENAME:-}" ] || exit 0
        printf ', or add the security updates to the sources of apt (suite %s-security, component main), which give cargo-web' "$VERSION_CODENAME"
    )
}

# How to install $setup_packages, which are named as Debian names them.
setup_how() {
    setup_release=${HAIRPIN_OS_RELEASE:-/etc/os-release}
    # shellcheck disable=SC1090,SC1091 # os-release(5) is meant to be read so
    case $([ -r "$setup_release" ] && . "$setup_release" && echo " ${ID:-} ${ID_LIKE:-} ") in
    *' fedora '*)
        printf 'dnf install%s' "$setup_packages" |
            sed 's/libc6-dev/glibc-devel/; s/pkg-config/pkgconf-pkg-config/; s/libelf-dev/elfutils-libelf-devel/; s/zlib1g-dev/zlib-devel/; s/iproute2/iproute/; s/procps/procps-ng/'
        ;;
    *) printf 'apt-get install%s' "$setup_packages" ;;
    esac
}

# --- compiler, linker, tools of the tests -----------------------------------------------------------------------------

setup_packages=
setup_need() { setup_has "$1" || setup_packages="$setup_packages $2"; }

# A compiler without libc's start files is as good as none, so try to link.
echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - 2>/dev/null || setup_packages="$setup_packages gcc libc6-dev"
setup_need pkg-config pkg-config
# libbpf comes with libbpf-sys and is linked against these two.
[ -e /usr/include/libelf.h ] || setup_packages="$setup_packages libelf-dev"
[ -e /usr/include/zlib.h ] || setup_packages="$setup_packages zlib1g-dev"
[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/ssl/cert.pem ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || setup_packages="$setup_packages ca-certificates" # for cargo
case "${HAIRPIN_FOR:-demo}" in
test | bench | bench-packet)
    setup_need ip iproute2
    setup_need ethtool ethtool
    setup_need strace strace
    setup_need lscpu util-linux
    setup_need ps procps
    ;;
esac
# What only tests need comes in one go of apt; where that fails, each by itself, and the tests count a skip for what cannot be had.
setup_tools=
setup_tool() { setup_has "$1" || setup_tools="$setup_tools $2"; }
if [ "${HAIRPIN_FOR:-demo}" = test ]; then
    # The BPF objects are compared with their sources.
    setup_tool clang clang
    setup_tool llvm-objcopy llvm
    # Node builds the report's page, a browser tries it.
    setup_tool node nodejs
    setup_tool npm npm
    setup_tool chromium chromium
    # Servers that the tests watch. Debian's redis-server is a link to redis-check-rdb, whose package starts no service.
    setup_has redis-server || setup_tool redis-check-rdb redis-tools
    setup_tool python3 python3
    setup_tool man man-db
    # A terminal for the live view.
    setup_tool tmux tmux
    # Shells whose completions are tried.
    setup_tool zsh zsh
    setup_tool fish fish
    # Modules of the emulated machines' kernels: Debian packs them with the one, Ubuntu with the other.
    setup_tool xz xz-utils
    setup_tool unzstd zstd
    if [ -n "$setup_tools" ]; then
        # shellcheck disable=SC2086 # a list of packages
        setup_apt $setup_tools || for setup_package in $setup_tools; do
            setup_apt "$setup_package" || setup_say "no $setup_package: what needs it is skipped"
        done
    fi
    setup_has node && setup_has npm && { scripts/web.sh --ready || setup_say "the report's page is not built and compared"; }
    setup_unpack nginx nginx || setup_say "no nginx: hairpin explain is not tried on one"
    setup_memcached || setup_say "no memcached: hairpin ping --request is not tried on one"
    # Each version of PostgreSQL has a folder of programs, which no PATH names.
    setup_initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb "$setup_folder"/usr/lib/postgresql/*/bin/initdb 2>/dev/null | head -n 1)
    case $setup_initdb in
    '' | "$setup_folder"/*)
        setup_version=$(apt-cache show postgresql 2>/dev/null | sed -n 's/^Depends: postgresql-\([0-9]*\).*/\1/p' | head -n 1)
        setup_initdb=$setup_folder/usr/lib/postgresql/$setup_version/bin/initdb
        ;;
    esac
    {
        setup_unpack "$setup_initdb" "postgresql-${setup_version:-}" &&
            { setup_starts "$setup_initdb" "${setup_initdb%initdb}postgres" || setup_apt libpq5 libxml2; }
    } || setup_say "no PostgreSQL: hairpin ping --request is not tried on one"
    # A scraper for the metrics.
    setup_unpack prometheus prometheus || setup_say "no prometheus: hairpin ping --metrics is not tried with one"
fi
if [ "${HAIRPIN_FOR:-demo}" = bench ]; then
    setup_need sockperf sockperf
    setup_need qperf qperf
    setup_need iperf iperf
    setup_need NPtcp netpipe-tcp
fi
if [ "${HAIRPIN_FOR:-demo}" = bench-requests ]; then
    setup_need redis-benchmark redis-tools
    setup_need wrk wrk
    setup_unpack nginx nginx || setup_fail "please install nginx (as root: apt-get install nginx), then run make again"
    setup_memcached || setup_fail "please install memcached (as root: apt-get install memcached), then run make again"
fi
if [ "${HAIRPIN_FOR:-demo}" = bench-flows ] && ! [ -e /usr/include/liburing.h ]; then
    setup_packages="$setup_packages liburing-dev"
fi
if [ "${HAIRPIN_FOR:-demo}" = bench-packet ]; then
    setup_need sockperf sockperf
    setup_need dpdk-testpmd dpdk-dev
    setup_need xdp-bench xdp-tools
    # testpmd's driver for AF_XDP and its memory pool are packages of their own, named after DPDK's ABI.
    if ! ls /usr/lib/*/dpdk/pmds-*/librte_net_af_xdp.so* >/dev/null 2>&1; then
        setup_packages="$setup_packages $(apt-cache pkgnames 2>/dev/null | grep -E '^librte-(net-af-xdp|mempool|mempool-ring)-?[0-9]+$' | tr '\n' ' ')"
    fi
fi
# elfutils is compiled into the command that is shipped; its sources come with the crate of libbpf, as its authors keep them.
if [ "${HAIRPIN_FOR:-demo}" = packages ]; then
    setup_need autoreconf autoconf
    setup_need automake automake
    setup_need autopoint autopoint
    setup_need bison bison
    setup_need flex flex
    setup_need gawk gawk
    setup_need make make
    setup_need msgfmt gettext
    setup_need readelf binutils
    python3 -c 'import venv, ensurepip' 2>/dev/null || setup_packages="$setup_packages python3-venv"
fi
# Roots are made by the one and entered by the other, both without being root too.
if [ "${HAIRPIN_FOR:-demo}" = test-packages ]; then
    setup_need mmdebstrap mmdebstrap
    setup_need bwrap bubblewrap
    setup_need readelf binutils
    setup_need getcap libcap2-bin
    # Users of a root that an ordinary user makes.
    [ "$(id -u)" = 0 ] || setup_need newuidmap uidmap
fi
if [ -n "$setup_packages" ]; then
    # shellcheck disable=SC2086 # a list of packages
    setup_apt $setup_packages || setup_fail "please install$setup_packages (as root: $(setup_how)), then run make again"
fi

# --- cargo ------------------------------------------------------------------------------------------------------------

setup_want=$(awk -F'"' '/^rust-version *=/ { print $2; exit }' Cargo.toml)
[ -n "$setup_want" ] || setup_fail "no rust-version in Cargo.toml; run make at the root of the repository"

if ! setup_new_enough && [ -x "$HOME/.cargo/bin/cargo" ]; then
    PATH="$HOME/.cargo/bin:$PATH"
fi
if ! setup_new_enough; then
    setup_has rustup || setup_apt rustup 2>/dev/null || true
    hash -r
    if setup_has rustup; then
        setup_say "installing the stable Rust toolchain with rustup"
        rustup toolchain install stable --profile minimal --component rustfmt --component clippy >&2 || true
        # A default that somebody chose stays theirs; only this shell goes past it.
        rustup default >/dev/null 2>&1 || rustup default stable >&2 || true
        setup_new_enough || { RUSTUP_TOOLCHAIN=stable && export RUSTUP_TOOLCHAIN; }
    elif setup_has apt-cache && setup_at_least "$(setup_candidate cargo-web)" "$setup_want" &&
        setup_at_least "$(setup_candidate rustc-web)" "$setup_want"; then
        setup_apt cargo-web rustc-web || true
        hash -r
    fi
    setup_new_enough || setup_fail "cargo $setup_want or newer is needed and ${setup_have:-none} is here: please install rustup (https://rustup.rs)$(setup_security), then run make again"
fi

# rustfmt and clippy for the tests. Where they cannot be had the tests count a skip.
if [ "${HAIRPIN_FOR:-demo}" = test ] && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
    if setup_has rustup; then
        rustup component add rustfmt clippy >&2 || true
    elif dpkg -s cargo-web >/dev/null 2>&1; then
        setup_apt rustfmt-web rust-web-clippy || true
    elif setup_has apt-get; then
        setup_apt rustfmt rust-clippy || true
    fi
fi

# --- what is to come --------------------------------------------------------------------------------------------------

# A first build is announced: minutes of one core for the command, and with the tests.
setup_announce() {
    [ ! -x "${CARGO_TARGET_DIR:-target}/debug/hairpin" ] || return 0
    case "${HAIRPIN_FOR:-demo}" in
    test) setup_minutes=18 ;;
    *) setup_minutes=8 ;;
    esac
    setup_cores=$(nproc 2>/dev/null || echo 1)
    setup_minutes=$(((setup_minutes + setup_cores - 1) / setup_cores))
    # Some crates wait for others, however many cores there are.
    [ "$setup_minutes" -ge 2 ] || setup_minutes=2
    setup_say "first build: about $setup_minutes min with the CPUs of this host ($setup_cores); later ones take seconds"
}
setup_announce

# For cargo: a bar that moves on a terminal, and nothing but errors in a log.
if [ -t 2 ]; then setup_quiet=; else setup_quiet=--quiet; fi
