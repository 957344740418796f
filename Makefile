# Hairpin: the commands that a fresh machine needs. Each one installs what is missing first (scripts/setup.sh).
# The profile `dev` is optimised and serves demo and tests; `release` is what is shipped, and what benchmarks measure.

.PHONY: help demo demos test test-rig test-tls test-arm64 test-mesh rig-shell packages test-packages bench-builds bench-peers figures
.DEFAULT_GOAL := help

help:
	@echo 'make demo         build, then run every path that this host supports, print one table and write a report to look at (about a minute once built)'
	@echo 'make demos        record the demonstrations of docs/demos anew (as root; about two minutes)'
	@echo 'make test         format, lint, unit, end-to-end and docs tests; the last line is the sum'
	@echo 'make test-tls     requests over TLS, by a command with the feature tls (one to two minutes; docs/requests.md)'
	@echo 'make test-rig     other kernels, real drivers, two machines, in emulation (Debian or Ubuntu; at most 25 min; docs/rig.md)'
	@echo 'make test-arm64   the command, and the tests of what depends on the CPU, on an emulated arm64 machine'
	@echo 'make test-mesh    hairpin mesh by Slurm and mpirun, on nodes that are namespaces of this host, and to Kubernetes (as root; Debian or Ubuntu; about six minutes, the first time fifteen; docs/mesh.md)'
	@echo 'make rig-shell    a shell in an emulated machine'
	@echo 'make packages     what is shipped: deb, rpm, tarball, container image, Python wheel; into target/packages (ARCH=aarch64 for arm64)'
	@echo 'make test-packages  installs and tries each of them in a clean root; the last line is the sum'
	@echo 'make bench-peers  hairpin against sockperf and the shortest C program, interleaved; PEERS=PATH,… adds netperf, neper, sfnt-pingpong; the record goes to runs/'
	@echo 'make bench-packet the packet rings against sockperf and testpmd, interleaved; the record goes to runs/'
	@echo 'make bench-niq    the emulated NIC: its own cost, a published table in real time, polling against interrupts; the record goes to runs/'
	@echo 'make bench-explain  what the hooks of hairpin explain take, and whether the stages add up; the record goes to runs/'
	@echo 'make bench-caught  what ping --explain-above takes, and whether it names a competitor; three quarters of an hour; the record goes to runs/'
	@echo 'make bench-check  how often hairpin check keeps each of its bounds, of forty runs; the record goes to runs/'
	@echo 'make bench-compare  hairpin compare: false alarms, and small differences that it must find; two and a half hours; the record goes to runs/'
	@echo 'make bench-load   how late the open loop of hairpin load sends, and a stall seen from due and from sent; the record goes to runs/'
	@echo 'make bench-equal  udp against the shortest C program with connected sockets, interleaved; the record goes to runs/'
	@echo 'make bench-flows  many flows beside a C program with epoll, and io_uring beside a C program, interleaved; the record goes to runs/'
	@echo 'make figures      every benchmark whole, six hours, from one build; README and docs are filled from the records (docs/figures.md; PARTS=load,niq BUSY=1 FILL=1 CHECK=1)'
	@echo 'make bench-builds OLD=… NEW=…  two builds of the command by turns, path by path: a change of the measuring loop must cost nothing'
	@echo 'make bench-requests  requests to redis, nginx and memcached beside redis-benchmark, wrk and a C program, interleaved; the record goes to runs/'
	@echo 'make bench-watch  what looking on takes: RTT with and without --watch and --metrics by turns; the record goes to runs/'

demo:
	@. ./scripts/setup.sh && cargo build $$setup_quiet --package hairpin-cli --bin hairpin && exec "$${CARGO_TARGET_DIR:-target}/debug/hairpin" demo

demos:
	@scripts/demos.sh

test:
	@scripts/test.sh

test-tls:
	@. ./scripts/setup.sh && { setup_has openssl || setup_apt openssl || setup_fail "please install openssl (as root: apt-get install openssl), then run make again"; } && \
		{ setup_unpack nginx nginx || setup_fail "please install nginx (as root: apt-get install nginx), then run make again"; } && \
		HAIRPIN_MUST_RUN=1 cargo test $$setup_quiet --package hairpin-cli --features tls --test main -- tls::

test-rig:
	@. ./scripts/setup.sh && cargo build $$setup_quiet --package hairpin-cli --bin hairpin && exec rig/run

test-arm64:
	@. ./scripts/setup.sh && exec rig/run arm64 arm64-tests

test-mesh:
	@. ./scripts/setup.sh && cargo build $$setup_quiet --package hairpin-cli --bin hairpin && exec cluster/run

rig-shell:
	@. ./scripts/setup.sh && cargo build $$setup_quiet --package hairpin-cli --bin hairpin && exec rig/shell "$(or $(KERNEL),7)" $(NIC)

packages:
	@packaging/build $(ARCH)

test-packages:
	@packaging/test

figures:
	@scripts/bench.sh figures $(if $(PARTS),--parts "$(PARTS)") $(if $(BUSY),--busy) $(if $(FILL),--fill) $(if $(CHECK),--check)

bench-builds:
	@scripts/bench.sh builds --old "$(OLD)" $(if $(NEW),--new "$(NEW)")

bench-peers:
	@scripts/bench.sh peers $(if $(PEERS),--peers "$(PEERS)")

bench-%:
	@scripts/bench.sh $*
