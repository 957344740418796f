//! The text of `-h` for each verb, and the examples of `--help` and the man pages.

/// The short help of a verb.
#[derive(Debug)]
pub struct Face {
    /// The verb, such as `tune try`.
    pub verb: &'static str,
    /// The arguments in the usage line, after the verb.
    pub takes: &'static str,
    /// Command lines, each with its purpose.
    pub examples: &'static [(&'static str, &'static str)],
    /// The most used flags by id, each with a short text; the flag's own if that is empty.
    pub flags: &'static [(&'static str, &'static str)],
}

impl Face {
    /// The line of usage.
    pub fn usage(&self) -> String {
        format!("hairpin {} {}", self.verb, self.takes).trim_end().to_owned()
    }
}

const PATHS: (&str, &str) = ("paths", "path to measure, such as udp:spin; repeatable");
const SIZE: (&str, &str) = ("size", "bytes of request and reply; default 64");
const FLOWS: (&str, &str) = ("flows", "connections or sockets, up to 20000; default 1");
const CPU: (&str, &str) = ("cpu", "the CPU of each side, such as 0,1");
const RATE: (&str, &str) = ("rate", "requests per second, such as 10k, idle between");
const KEY: (&str, &str) = ("key_file", "the key that `hairpin serve` printed");
const JSON: (&str, &str) = ("json", "the whole record as JSON");
const FORMAT: (&str, &str) = ("format", "table, md, csv or json");
const WHOLE: (&str, &str) = ("whole", "the whole run, in equal parts for its rows");
const QUIET: (&str, &str) = ("quiet", "no progress, no notes");
const VERBOSE: (&str, &str) = ("verbose", "all figures, with reasons");
const NO_STORE: (&str, &str) = ("no_store", "do not keep the record");
const INTERFACE: (&str, &str) = ("interface", "the interface");

/// The faces of all verbs.
pub const FACES: &[Face] = &[
    Face {
        verb: "ping",
        takes: "HOST[:PORT]|loopback|veth|echo:HOST:PORT|frames:IF [FLAGS]",
        examples: &[
            ("hairpin ping loopback", "this host with itself"),
            ("hairpin ping server --key-file key", "a host where hairpin serves"),
            ("hairpin ping veth -p udp:spin -p tcp:spin", "two paths, a row each"),
            ("hairpin ping echo:db --request redis-ping", "a Redis server, as it is"),
            ("hairpin ping server --forever --watch", "live, until q"),
        ],
        flags: &[
            PATHS,
            SIZE,
            ("duration", "measured time of each row; default 3s"),
            WHOLE,
            ("count", "end each row after N round trips"),
            RATE,
            FLOWS,
            ("outstanding", "requests in flight per flow; default 1"),
            CPU,
            KEY,
            ("watch", "draw the run while it goes on"),
            ("format", "table, md, csv, json (-j), jsonl, netperf, sockperf …"),
            VERBOSE,
        ],
    },
    Face {
        verb: "serve",
        takes: "[ADDR[:PORT]] [FLAGS]",
        examples: &[
            ("hairpin serve", "for clients on this host"),
            ("hairpin serve 0.0.0.0", "for all, with a key that it makes"),
            ("hairpin serve 0.0.0.0 --key-file key", "the key is in a file"),
        ],
        flags: &[
            ("at", "address and port; default 127.0.0.1:24444"),
            ("key_file", "the key that every client must have"),
            ("data_ports", "ports of measured traffic, such as 24500-24599"),
            ("allow_sched", "the highest real-time priority of a client"),
            ("cpus", "the CPUs of clients' work, such as 2,3"),
        ],
    },
    Face {
        verb: "paths",
        takes: "[loopback|veth] [PATH…] [FLAGS]",
        examples: &[
            ("hairpin paths", "paths over loopback"),
            ("hairpin paths veth", "paths over a veth pair"),
            ("hairpin paths tcp", "one path, with its options in full"),
            ("hairpin paths -i eth0", "the stamps of a NIC, and its clock"),
        ],
        flags: &[
            ("names", "these paths only; the link that they are asked about"),
            ("interface", "the stamps of this NIC: what it claims, what is seen"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "runs",
        takes: "[list|show|export|rm] [RUN…]",
        examples: &[
            ("hairpin runs", "all of them, oldest first"),
            ("hairpin runs show latest", "one as it was printed"),
            ("hairpin runs -2", "the last but one"),
            ("hairpin runs export latest --format csv", "for other programs"),
        ],
        flags: &[],
    },
    Face {
        verb: "runs list",
        takes: "[FLAGS]",
        examples: &[("hairpin runs list", "oldest first"), ("hairpin runs list -j", "as JSON")],
        flags: &[JSON],
    },
    Face {
        verb: "runs show",
        takes: "RUN [FLAGS]",
        examples: &[
            ("hairpin runs show latest", "the last run"),
            ("hairpin runs show latest~1", "the one before"),
            ("hairpin runs show latest --percentiles 50,99,99.99", "other percentiles"),
        ],
        flags: &[
            ("run", "latest, latest~1, -2, an id, the begin of one, or a file"),
            ("percentiles", "such as 50,99,99.99"),
            ("hrt", "half round trips: RTT/2, not one-way"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "runs export",
        takes: "RUN… [FLAGS]",
        examples: &[
            ("hairpin runs export latest", "CSV, the unit in each column's name"),
            ("hairpin runs export latest latest~1 -j", "two runs as JSON"),
        ],
        flags: &[("runs", "latest, latest~1, -2, ids, begins of ids, or files"), JSON],
    },
    Face {
        verb: "runs rm",
        takes: "RUN…",
        examples: &[("hairpin runs rm latest", "the last run")],
        flags: &[("runs", "latest, latest~1, -2, ids, or begins of ids")],
    },
    Face {
        verb: "report",
        takes: "RUN… [-o FILE] [FLAGS]",
        examples: &[
            ("hairpin report latest -o report.html", "a page to look at"),
            ("hairpin report latest --format term", "plots in the terminal"),
            ("hairpin report latest~1 latest -o two.html", "two runs on one page"),
            ("hairpin report latest --format md", "for an issue"),
        ],
        flags: &[
            ("runs", "latest, latest~1, -2, ids, begins of ids, or JSON files"),
            ("output", "where to; default stdout"),
            ("format", "html, md, csv, json, svg or term"),
            ("chart", "with --format svg: sizes, percentiles, budget or load"),
        ],
    },
    Face {
        verb: "demo",
        takes: "[FLAGS]",
        examples: &[("hairpin demo", "a table, three sentences and hairpin-demo.html")],
        flags: &[("no_store", "neither keep the runs nor write their report"), FORMAT, JSON, QUIET],
    },
    Face {
        verb: "check",
        takes: "[FLAGS]",
        examples: &[
            ("hairpin check", "before figures are trusted"),
            ("sudo hairpin check --host", "which two cores to take for --cpu"),
        ],
        flags: &[
            ("of_host", "the host instead: stalls of its cores, their causes"),
            ("cpu", "with --host: the cores to look at, such as 2-5,8"),
            ("duration", "with --host: the time for each core; default 5s"),
            FORMAT,
            JSON,
            QUIET,
            NO_STORE,
        ],
    },
    Face {
        verb: "explain",
        takes: ":PORT|PROGRAM|PID | HOST[:PORT]|loopback|veth [FLAGS]",
        examples: &[
            ("sudo hairpin explain :6379", "a server that runs, unmodified"),
            ("sudo hairpin explain redis-server", "the same by its program"),
            ("sudo hairpin explain loopback -p udp", "the stages of a path"),
            ("sudo hairpin explain veth -p udp --timeline 3", "its 3 slowest, event by event"),
            ("sudo hairpin explain server -p tcp --light", "four hooks each way"),
        ],
        flags: &[
            PATHS,
            SIZE,
            ("duration", "how long; each row of a path; default 10s"),
            WHOLE,
            RATE,
            CPU,
            KEY,
            ("light", "four hooks each way: less detail, less disturbance"),
            ("timeline", "print the N slowest, event by event"),
            FORMAT,
            VERBOSE,
            QUIET,
        ],
    },
    Face {
        verb: "floor",
        takes: "[FLAGS]",
        examples: &[
            ("hairpin floor --wire 10G,twinax:3m,niq", "a link's least RTT"),
            ("hairpin floor --nic niq --explain", "with sources"),
            ("hairpin floor --nic niq --compare dma", "two designs"),
            ("hairpin floor --fit latest", "a run over its sizes"),
            ("hairpin floor pcie --published", "published reads"),
        ],
        flags: &[
            ("wire", "the link in one word, or a flag for each part:"),
            ("link_rate", "of the link, such as 10G"),
            ("cable", "such as twinax:3m"),
            ("nic", "design at both ends, such as niq or none"),
            ("hops", "a switch, such as cut-through:300ns"),
            ("frame", "bytes of the frame without FCS"),
            ("sizes", "bytes of payload, one or several"),
            ("compare", "a second design, side by side"),
            ("explain", "a sentence for each stage"),
            JSON,
        ],
    },
    Face {
        verb: "floor pcie",
        takes: "[--device BDF --bar N --offset X] [FLAGS]",
        examples: &[
            ("hairpin floor pcie", "a driver's steps over memory"),
            ("hairpin floor pcie --published", "published reads, nothing is measured"),
            ("sudo hairpin floor pcie --device 0000:3b:00.0 --bar 0 --offset 0x8", ""),
        ],
        flags: &[
            ("device", "as lspci -D names it"),
            ("bar", "its base address register, 0 to 5"),
            ("offset", "in bytes, a multiple of 4"),
            ("count", "number of reads"),
            ("published", "the published reads"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "compare",
        takes: "[WHERE TO] SIDE SIDE… | RUN RUN | --baseline RUN [FLAGS]",
        examples: &[
            ("hairpin compare udp:spin tcp:spin", "two paths"),
            ("hairpin compare veth -p tcp -- -s 64 -- -s 1k", "flags of ping"),
            ("hairpin compare loopback -p udp -- --cpu 0,1 -- --cpu 0,0", "two placements"),
            ("hairpin compare latest~1 latest", "two stored runs"),
            ("hairpin compare --baseline latest --fail-if 'p99 > +5%'", "a gate"),
        ],
        flags: &[
            PATHS,
            SIZE,
            ("duration", "the whole experiment; default 30s"),
            ("figure", "p50, p99, p99.9, rate or cpu; default p50"),
            ("same_within", "a smaller difference does not matter; 2%"),
            ("until", "end when the interval is narrower than this"),
            ("knobs", "a setting of this host, for one side"),
            ("baseline", "measure a stored run's rows again"),
            ("fail_if", "exit with 3 beyond this"),
            FORMAT,
            JSON,
            VERBOSE,
            QUIET,
        ],
    },
    Face {
        verb: "sweep",
        takes: "PLAN|FILE.toml | -p SPEC… --vary NAME=A,B [HOST|LINK] [FLAGS]",
        examples: &[
            ("hairpin sweep --list", "the plans there are"),
            ("hairpin sweep sun-fire", "one of them"),
            ("hairpin sweep -p udp:spin -p tcp:spin --sizes 64,1k", "flags with several values"),
            ("hairpin sweep veth -p tcp --vary quickack=on,off", "an option of the path"),
        ],
        flags: &[
            PATHS,
            ("sizes", "payloads, such as 64,1k"),
            ("vary", "a factor, such as flows=1,4; repeatable"),
            ("knobs", "a setting of this host, such as NAME=as-is,0"),
            KEY,
            ("duration", "the whole experiment; 60s without a plan"),
            ("restart", "start again"),
            FORMAT,
            JSON,
            QUIET,
        ],
    },
    Face {
        verb: "bounce",
        takes: "IF [FLAGS]",
        examples: &[
            ("sudo hairpin bounce eth1", "frames of hairpin"),
            ("sudo hairpin bounce eth1 --filter udp:9000 --rewrite all", "UDP to a port"),
            ("sudo hairpin bounce eth1 -p packet:block -t 60s", "for a minute"),
        ],
        flags: &[
            ("on", "the interface"),
            ("out_of", "send out of this interface instead"),
            ("io", "xdp or packet, such as packet:spin"),
            ("filter", "frames to bounce; default ethertype:0x88b5"),
            ("rewrite", "none, macs or all"),
            ("duration", "duration; until Ctrl-C if not given"),
            ("cpu", "the CPU"),
            ("queue", "the queue; default 0"),
            ("yes", "bounce this host's own traffic too"),
            ("format", "table, md, csv, json or jsonl"),
            QUIET,
        ],
    },
    Face {
        verb: "stream",
        takes: "veth | IF --direction WHAT [FLAGS]",
        examples: &[
            ("sudo hairpin stream veth", "all of it on this host"),
            ("sudo hairpin stream eth1 --direction receive", "count received frames"),
            ("sudo hairpin stream veth -p packet:spin --direction bounce", "one of each"),
        ],
        flags: &[
            ("place", "veth[:…], both ends on this host, or an interface"),
            ("dst_mac", "of an interface: the other host's Ethernet address"),
            ("direction", "inject, receive or bounce; repeatable"),
            ("io", "xdp or packet, such as packet:spin; repeatable"),
            ("sizes", "bytes of frames without FCS"),
            ("rate", "frames per second; no search"),
            ("queues", "queues of each side; default 1"),
            ("duration", "each trial; default 500ms"),
            FORMAT,
            JSON,
            QUIET,
        ],
    },
    Face {
        verb: "exec",
        takes: "[FLAGS] -- COMMAND…",
        examples: &[
            ("hairpin exec --nodelay -- ./server", "no Nagle"),
            ("hairpin exec --busy-poll 50 --cpu 2 -- ./server", "poll for 50 us, on CPU 2"),
            ("sudo hairpin exec --hold-idle -- ./server", "no deep idle states meanwhile"),
        ],
        flags: &[
            ("nodelay", "segments leave at once"),
            ("quickack", "segments are acknowledged at once"),
            ("busy_poll", "us that a receive call polls before it sleeps"),
            ("cpu", "the CPU of all its threads"),
            ("hold_idle", "no deep idle states meanwhile; needs root"),
            ("set_live", "from outside: static programs, and Go"),
        ],
    },
    Face {
        verb: "tune",
        takes: "check|try|apply|revert|status|list [FLAGS]",
        examples: &[
            ("hairpin tune check", "settings that cost latency here"),
            ("sudo hairpin tune try loopback", "the gain of each setting"),
            ("sudo hairpin tune apply --profile latency", "change it, with a journal"),
            ("sudo hairpin tune revert", "put all back"),
        ],
        flags: &[],
    },
    Face {
        verb: "tune list",
        takes: "[NAME…] [FLAGS]",
        examples: &[
            ("hairpin tune list", "every setting and how it stands"),
            ("hairpin tune list cpu_dma_latency_us", "all about one"),
        ],
        flags: &[("names", "settings to show"), INTERFACE, ("cpus", "CPUs, such as 2,3; default all"), FORMAT, JSON],
    },
    Face {
        verb: "tune check",
        takes: "[FLAGS]",
        examples: &[("hairpin tune check", "for latency"), ("hairpin tune check -i eth1", "a NIC's settings too")],
        flags: &[
            INTERFACE,
            ("cpus", "CPUs, such as 2,3; default all"),
            ("profile", "latency, power or throughput"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "tune apply",
        takes: "NAME=VALUE…|FILE.toml|--profile P [FLAGS] [--while -- CMD…]",
        examples: &[
            ("sudo hairpin tune apply --profile latency", "a profile"),
            ("sudo hairpin tune apply idle_states=0 --yes", "one setting"),
            ("sudo hairpin tune apply cpu_dma_latency_us=0 --while -- ./bench", "meanwhile"),
        ],
        flags: &[
            ("profile", "latency, power or throughput"),
            INTERFACE,
            ("cpus", "CPUs, such as 2,3; default all"),
            ("dry_run", "show the changes, make none"),
            ("yes", "apply without asking"),
            ("attended", "only while the command after -- runs"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "tune revert",
        takes: "[NAME…] [FLAGS]",
        examples: &[("sudo hairpin tune revert", "all that the journal lists")],
        flags: &[
            ("knobs", "settings to restore; default all"),
            ("force", "also settings that others have changed since"),
            FORMAT,
            JSON,
        ],
    },
    Face {
        verb: "tune try",
        takes: "HOST|loopback|veth [--knob NAME=VALUE…] [FLAGS]",
        examples: &[
            ("sudo hairpin tune try loopback", "all that are safe"),
            ("sudo hairpin tune try server --knob busy_poll_us=50", "one of them"),
            ("sudo hairpin tune try loopback -o best.toml", "write the winners"),
        ],
        flags: &[
            ("knobs", "a setting to try; repeatable"),
            ("all_safe", "every setting that can break nothing; default"),
            PATHS,
            ("duration", "the whole experiment; default 6s a setting and path"),
            INTERFACE,
            ("keep", "leave the winners in force"),
            ("file", "write the winners as a profile"),
            ("yes", "begin without asking"),
            KEY,
            FORMAT,
            JSON,
            QUIET,
        ],
    },
    Face {
        verb: "tune status",
        takes: "[FLAGS]",
        examples: &[("hairpin tune status", "the current changes, and who made them")],
        flags: &[FORMAT, JSON],
    },
    Face {
        verb: "load",
        takes: "HOST[:PORT]|loopback|veth [FLAGS]",
        examples: &[
            ("hairpin load loopback -p udp:spin", "10 to 110 % of its capacity"),
            ("hairpin load server -r 1k..64kx2 -t 5s", "these rates"),
            ("hairpin load server -r 20k --schedule poisson", "as from many users"),
            ("hairpin load veth -r 1k --bulk tcp:2", "beside two streams"),
        ],
        flags: &[
            ("rate", "requests per second, a row each: 1k,2k or 1k..64kx2"),
            ("schedule", "fixed, or poisson: exponential intervals"),
            ("replay", "a recording of time,size"),
            ("bulk", "tcp:N: fill the link with N streams meanwhile"),
            PATHS,
            SIZE,
            ("duration", "measured time of each rate; default 2s"),
            WHOLE,
            FLOWS,
            CPU,
            KEY,
            FORMAT,
            JSON,
            QUIET,
        ],
    },
    Face {
        verb: "mesh",
        takes: "[FLAGS] | merge DIR",
        examples: &[
            ("srun -N 8 hairpin mesh", "all pairs of 8 hosts, in Slurm"),
            ("hairpin mesh --engine slurm -N 8", "the same, as a job that this makes"),
            ("mpirun hairpin mesh --pairs sample:20", "20 partners a rank"),
            ("hairpin mesh --rank 0 --ranks 2 --dir /shared/m", "by hand, on each host"),
            ("hairpin mesh merge DIR", "the record of its files alone"),
        ],
        flags: &[
            ("pairs", "all, ring, neighbours or sample:K; default all"),
            ("visits", "times that each pair is measured; default 2"),
            ("path", "path to measure; default udp"),
            ("duration", "measured time of a visit; default 500ms"),
            ("dir", "directory that all hosts share"),
            ("hosts", "names of the ranks instead, in order"),
            ("engine", "slurm: make the job from here, of -N nodes"),
            ("rank", "which rank this is, by hand; how many: --ranks"),
            ("fail_if", "exit with 3 beyond this"),
            FORMAT,
            VERBOSE,
        ],
    },
    Face {
        verb: "mesh merge",
        takes: "DIR [FLAGS]",
        examples: &[("hairpin mesh merge hairpin-mesh-1234.0", "after rank 0 was lost")],
        flags: &[("merged", "the directory of the mesh"), ("fail_if", "exit with 3 beyond this"), NO_STORE, FORMAT, JSON],
    },
    Face {
        verb: "watch",
        takes: "RUN|FILE|-",
        examples: &[("hairpin watch latest", "the last run"), ("hairpin watch -", "the output of `hairpin ping -o jsonl`")],
        flags: &[("what", "a run, a file that grows, or - for standard input")],
    },
    Face {
        verb: "completions",
        takes: "bash|zsh|fish|elvish|powershell",
        examples: &[("hairpin completions bash", "for ~/.local/share/bash-completion/completions")],
        flags: &[("shell", "")],
    },
    Face { verb: "man", takes: "DIRECTORY", examples: &[("hairpin man man1", "a page per verb")], flags: &[("directory", "")] },
];
