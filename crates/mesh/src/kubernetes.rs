//! A mesh as a Job of Kubernetes: its manifests, to be handed to kubectl. Hairpin itself speaks to no cluster.
//!
//! ```text
//!   Job, indexed: a pod a node ──▶ JOB_COMPLETION_INDEX is the rank, NAME-K.NAME its host (headless Service)
//!     ├─ Secret: the key          ├─ NetworkPolicy: its own pods only, on the mesh's ports
//!     └─ rank 0's log: the record └─ ServiceAccount without any right
//! ```

use std::io::Read;
use std::time::Duration;

use flate2::read::ZlibDecoder;
use hairpin_plan::job::Sides;
use hairpin_plan::path::Route;
use hairpin_plan::spec::Spec;
use hairpin_record::head::TOOL;
use hairpin_session::key::Key;

use crate::setup::{BadSetup, Setup};

/// The manifests. A line that begins with a word in brackets is there only if that word holds; names in braces are values.
/// It is `kubernetes.yaml`, packed by `build.rs`.
static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/kubernetes"));
/// Ports of measured traffic if the user names none.
const DATA_PORTS: (u16, u16) = (24_500, 24_599);
/// Memory of a rank without any visit, and the step in which it grows, in MiB.
const MEMORY: u64 = 256;
/// Memory that a visit takes at rank 0, which has the visits of all ranks, in bytes.
const VISIT: u64 = 8192;
/// Time of a Job on top of the mesh's own: images are pulled, pods placed.
const PLACING: Duration = Duration::from_secs(300);

/// A mesh to run in a cluster.
#[derive(Debug)]
pub struct Job {
    /// Name of all objects.
    pub name: String,
    /// Their namespace; that of kubectl's context if not given.
    pub namespace: Option<String>,
    /// The image of a rank.
    pub image: String,
    /// The pods are in their node's network.
    pub host_network: bool,
    /// Several ranks may be on one node.
    pub same_host: bool,
    /// The port of each rank.
    pub port: u16,
    /// First and last port of measured traffic.
    pub data_ports: Option<(u16, u16)>,
    /// For how long ranks wait for each other.
    pub wait: Duration,
    /// The mesh's key.
    pub key: Key,
    /// The text of `--topology`.
    pub topology: Option<String>,
    /// The work of the ranks.
    pub setup: Setup,
    /// Further arguments of each rank, as typed.
    pub arguments: Vec<String>,
}

impl Job {
    /// The manifests, a stream of YAML.
    ///
    /// # Errors
    /// The setup is not valid.
    pub fn manifests(&self) -> Result<String, BadSetup> {
        let schedule = self.setup.schedule()?;
        let visits = schedule.pair_count() * u64::from(self.setup.visits);
        let memory = (MEMORY + (visits * VISIT).div_ceil(1 << 20)).next_multiple_of(MEMORY);
        // The ranks themselves end by then, if they begin at all.
        let deadline = PLACING + 2 * self.wait + 4 * self.setup.visit_may_last() * schedule.rounds();
        let spec = self.setup.job(0, Sides::default())?.spec;
        let capabilities = capabilities(&spec);
        let (first, last) = self.data_ports.unwrap_or(DATA_PORTS);
        let holds = |word: &str| match word {
            "host" => self.host_network,
            "pod" => !self.host_network,
            "apart" => !self.same_host,
            "user" => capabilities.is_empty(),
            "root" => !capabilities.is_empty(),
            "topology" => self.topology.is_some(),
            _ => false,
        };
        let values = [
            ("{NAMESPACE}", self.namespace.as_ref().map_or_else(String::new, |name| format!("namespace: {}", quoted(name)))),
            ("{AT}", self.namespace.as_ref().map_or_else(String::new, |name| format!("--namespace={name} "))),
            ("{NAME}", self.name.clone()),
            ("{RANKS}", self.setup.ranks.to_string()),
            ("{COST}", self.setup.cost(&schedule)),
            ("{TOOL}", TOOL.into()),
            ("{DEADLINE}", deadline.as_secs().to_string()),
            ("{WAIT}", self.wait.as_secs().to_string()),
            ("{PORT}", self.port.to_string()),
            ("{FIRST}", first.to_string()),
            ("{LAST}", last.to_string()),
            ("{MEMORY}", memory.to_string()),
            ("{CAPABILITIES}", capabilities.join(", ")),
            ("{IMAGE}", quoted(&self.image)),
            ("{KEY}", quoted(&self.key.to_text())),
            ("{TOPOLOGY}", quoted(self.topology.as_deref().unwrap_or_default())),
            ("{ARGUMENTS}", format!("[{}]", self.of_rank((first, last)).join(", "))),
        ];
        let mut text = String::new();
        for line in template().lines() {
            let (word, line) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')).unwrap_or(("", line));
            if !word.is_empty() && !holds(word) {
                continue;
            }
            // Each value goes in once: a name within a value stays as it is.
            let mut filled = String::new();
            let mut rest = line;
            while let Some((at, (name, value))) =
                values.iter().filter_map(|value| Some((rest.find(value.0)?, value))).min_by_key(|(at, _)| *at)
            {
                filled.push_str(&rest[..at]);
                filled.push_str(value);
                rest = &rest[at + name.len()..];
            }
            filled.push_str(rest);
            if !filled.trim().is_empty() {
                text.push_str(&filled);
                text.push('\n');
            }
        }
        Ok(text)
    }

    /// The arguments of a rank, quoted.
    fn of_rank(&self, (first, last): (u16, u16)) -> Vec<String> {
        let name = &self.name;
        let mut words: Vec<String> = ["mesh", "--no-store", "--dir=/mesh", "--key-file=/etc/mesh/key"].map(str::to_owned).into();
        words.push(format!("--hosts={name}-{{}}.{name}"));
        words.push(format!("--ranks={}", self.setup.ranks));
        words.push(format!("--port={}", self.port));
        words.push(format!("--data-ports={first}-{last}"));
        words.push(format!("--wait={}s", self.wait.as_secs()));
        words.extend(self.topology.iter().map(|_| "--topology=/etc/mesh/topology.conf".to_owned()));
        // $(NAME) is a variable there, and $$ a dollar.
        words.extend(self.arguments.iter().map(|word| word.replace('$', "$$")));
        words.push("--listen=$(POD_IPS)".into());
        words.iter().map(|word| quoted(word)).collect()
    }
}

/// The capabilities for the path of either side, as in docs/install.md.
fn capabilities(spec: &Spec) -> &'static [&'static str] {
    let routes = [spec.client.path.route, spec.server.path.route];
    if routes.contains(&Route::XdpRing) {
        &["BPF", "NET_ADMIN", "NET_RAW", "IPC_LOCK"]
    } else if routes.contains(&Route::PacketRing) {
        &["NET_RAW"]
    } else {
        &[]
    }
}

/// A scalar of YAML, in quotes: printable ASCII as it is, all else escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            ' '..='~' => quoted.push(c),
            c => quoted.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

/// Checks a namespace's name: a DNS label (RFC 1123).
pub fn namespace(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let whole =
        text.len() <= 63 && text.chars().all(|c| sound(c) || c == '-') && text.starts_with(sound) && text.ends_with(sound);
    whole.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is not a namespace: at most 63 lower-case letters, digits and -, the first and last no -, such as hpc-tests")
    })
}

/// Checks an image's name.
pub fn image(text: &str) -> Result<String, String> {
    let sound = |c: char| c.is_ascii_alphanumeric() || "._-/:@".contains(c);
    let whole = text.len() <= 512 && text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(sound);
    whole.then(|| text.to_owned()).ok_or_else(|| {
        format!("\"{text}\" is not an image: write REGISTRY/NAME:TAG or @DIGEST, such as registry.example/hairpin:0.2")
    })
}

fn template() -> String {
    let mut text = String::new();
    ZlibDecoder::new(PACKED).read_to_string(&mut text).expect("build.rs packed a text");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job {
            name: "mesh-7".into(),
            namespace: None,
            image: "registry.example/hairpin:1".into(),
            host_network: false,
            same_host: false,
            port: 24_446,
            data_ports: None,
            wait: Duration::from_secs(600),
            key: Key::parse(&"00".repeat(32)).unwrap(),
            topology: None,
            setup: crate::setup::tests::setup(8, "all"),
            arguments: Vec::new(),
        }
    }

    #[test]
    fn every_name_and_every_word_of_the_template_is_known() {
        let full = Job { namespace: Some("ns".into()), host_network: true, topology: Some("{NAME}[x]\n".into()), ..job() };
        for text in [job().manifests().unwrap(), full.manifests().unwrap()] {
            for line in text.lines() {
                assert!(!line.starts_with('['), "{line}");
                assert!(!line.replace("\"{NAME}[x]", "").contains("{NAM") && !line.contains("{RANKS}"), "{line}");
                let braces = |c| line.matches(c).count();
                assert_eq!(braces('{'), braces('}'), "{line}");
            }
        }
        assert!(full.manifests().unwrap().contains(r#"topology.conf: "{NAME}[x]\U0000000A""#), "a value is no template");
        let upper = |text: &str| {
            let mut names: Vec<String> =
                text.split('{').filter_map(|rest| rest.split_once('}')).map(|(name, _)| name.to_owned()).collect();
            names.retain(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase()));
            names
        };
        assert!(upper(&template()).len() > 40);
        assert_eq!(upper(&job().manifests().unwrap()), Vec::<String>::new());
    }

    #[test]
    fn only_rings_of_an_interface_take_a_superuser() {
        let of = |path: &str| {
            let setup = Setup { path: path.into(), ..crate::setup::tests::setup(8, "all") };
            Job { setup, ..job() }.manifests().unwrap()
        };
        let ring = |route| {
            let found = hairpin_plan::paths::PATHS.iter().find(|path| path.route == route).expect("such a path");
            of(found.name)
        };
        assert!(of("udp").contains("runAsNonRoot: true") && of("udp").contains("add: []"));
        assert!(ring(Route::PacketRing).contains("runAsUser: 0\n") && ring(Route::PacketRing).contains("add: [NET_RAW]"));
        assert!(
            ring(Route::XdpRing).contains("add: [BPF, NET_ADMIN, NET_RAW, IPC_LOCK]")
                && !ring(Route::XdpRing).contains("NonRoot")
        );
    }

    #[test]
    fn time_and_memory_grow_with_the_mesh() {
        let of = |ranks, pairs: &str| {
            let setup = crate::setup::tests::setup(ranks, pairs);
            Job { setup, ..job() }.manifests().unwrap()
        };
        let eight = of(8, "all");
        assert!(eight.contains("memory: 512Mi") && eight.contains("activeDeadlineSeconds: 1542\n"), "{eight}");
        assert!(of(10_000, "sample:20").contains("memory: 2048Mi"), "{}", of(10_000, "sample:20"));
    }

    #[test]
    fn names_are_checked_and_values_quoted() {
        assert_eq!(quoted("a\"\\\u{85}$é\n"), r#""a\"\\\U00000085$\U000000E9\U0000000A""#);
        let dollar = Job { arguments: vec!["--x=$(KEY)".into()], ..job() };
        assert!(dollar.manifests().unwrap().contains(r#""--x=$$(KEY)""#));
        assert_eq!(namespace("hpc-1"), Ok("hpc-1".into()));
        for bad in ["", "Hpc", "-a", "a-", "a.b", "a\nb", "ä", &"a".repeat(64)] {
            assert!(namespace(bad).unwrap_err().contains("is not a namespace"), "{bad}");
        }
        assert!(image("registry.example:5000/a/hairpin@sha256:00ff").is_ok());
        for bad in ["", "a b", "a\n", ":x", "a\"", &"a".repeat(513)] {
            assert!(image(bad).unwrap_err().contains("is not an image"), "{bad}");
        }
    }
}
