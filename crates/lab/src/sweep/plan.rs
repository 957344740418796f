//! The plan of a sweep: its factors, and the job for each combination of their levels.
//!
//! ```toml
//! name = "sizes"
//! title = "cost of a byte"
//! link = "veth"
//! duration = "30s"
//! design = "factorial"              # or "one-at-a-time"
//! path = "udp:{wait}"               # {NAME} stands for the factor's level
//! size = "{payload}"
//!
//! [[factor]]
//! name = "wait"
//! levels = ["spin", "block"]
//!
//! [[factor]]
//! name = "payload"
//! levels = ["64", { name = "1 KiB", value = "1024" }]
//! ```

use std::io::Read;
use std::sync::LazyLock;
use std::time::Duration;

use flate2::read::ZlibDecoder;
use hairpin_plan::spec::Spec;
use hairpin_tune::setting::{Setting, SettingError};
use hairpin_units::{parse_duration, parse_number};
use serde::Deserialize;

use crate::bulk::streams;
use hairpin_session::link::LinkSpec;

/// The plans shipped with the program, by name.
pub static PLANS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut texts = String::new();
    let packed = &include_bytes!(concat!(env!("OUT_DIR"), "/plans"))[..];
    ZlibDecoder::new(packed).read_to_string(&mut texts).expect("build.rs packed texts");
    let parts: Vec<&str> = texts.split_terminator('\0').collect();
    parts.chunks_exact(2).map(|plan| (plan[0].into(), plan[1].into())).collect()
});

/// The level at which a setting stays unchanged.
const AS_IS: &str = "=as-is";
/// Most combinations; a plan with more is a mistake.
const MOST_CELLS: usize = 512;

/// A plan: the factors, and the work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SweepPlan {
    pub name: String,
    /// The subject in one line.
    #[serde(default)]
    pub title: String,
    /// A link on this host.
    #[serde(default)]
    pub link: Option<String>,
    /// Duration of the whole experiment.
    #[serde(default)]
    pub duration: Option<String>,
    /// The combinations to measure.
    #[serde(default)]
    pub design: Design,
    /// The path spec, with `{NAME}` for a factor's level.
    pub path: String,
    /// Payload of request and reply in bytes.
    #[serde(default)]
    pub size: Option<String>,
    /// Payload of a request in bytes, with `reply`.
    #[serde(default)]
    pub request: Option<String>,
    /// Payload of a reply in bytes.
    #[serde(default)]
    pub reply: Option<String>,
    /// Connections or sockets.
    #[serde(default)]
    pub flows: Option<String>,
    /// Requests in flight per flow.
    #[serde(default)]
    pub outstanding: Option<String>,
    /// Bulk TCP streams that fill the link meanwhile: `none` or `tcp:N`.
    #[serde(default)]
    pub bulk: Option<String>,
    /// Frame size in bytes (FCS not included) for which frames per second without loss are also measured, per io and setting of
    /// the host.
    #[serde(default)]
    pub loss_free_frame: Option<u64>,
    /// Settings of this host, as `NAME={FACTOR}`; at the level `as-is` the setting stays unchanged.
    #[serde(default)]
    pub knobs: Vec<String>,
    /// Parts of the subject that the plan does not measure, as sentences.
    #[serde(default)]
    pub left_out: Vec<String>,
    #[serde(rename = "factor")]
    pub factors: Vec<Factor>,
}

/// The work of a combination of levels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CellWork {
    pub(crate) spec: Spec,
    pub(crate) request: u32,
    pub(crate) reply: u32,
    /// Connections or sockets.
    pub(crate) flows: u32,
    /// Requests in flight per flow.
    pub(crate) outstanding: u32,
    /// Bulk TCP streams that fill the link meanwhile.
    pub(crate) bulk: u32,
}

/// The combinations of levels that are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// All combinations.
    #[default]
    Factorial,
    /// The first level of every factor, and each other level alone.
    OneAtATime,
}

/// A factor of the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Factor {
    /// The name, as written between braces.
    pub name: String,
    /// The levels; the others are compared with the first.
    pub levels: Vec<Level>,
    /// If the host lacks the setting, the first level is measured, and the record says why. In a path, levels that the host lacks
    /// are left out, with the reason.
    #[serde(default)]
    pub optional: bool,
}

impl Factor {
    /// A factor that is not optional.
    #[must_use]
    pub fn new(name: &str, levels: Vec<Level>) -> Factor {
        Factor { name: name.into(), levels, optional: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// The name is the value.
    Plain(String),
    /// The name differs from the value.
    Named {
        /// The name in tables.
        name: String,
        /// The value in place of the braces.
        value: String,
    },
}

impl Level {
    /// The name in tables.
    pub fn name(&self) -> &str {
        match self {
            Level::Plain(text) | Level::Named { name: text, .. } => text,
        }
    }

    /// The value in place of the braces.
    fn value(&self) -> &str {
        match self {
            Level::Plain(text) | Level::Named { value: text, .. } => text,
        }
    }
}

/// Why a plan cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The file is not TOML, or not a plan.
    #[error("{file} is not a plan: {why}")]
    Parse {
        file: String,
        /// The parser's error.
        why: String,
    },
    /// No plan has this name.
    #[error("there is no plan \"{name}\"; there are: {}; or give a FILE.toml", PLANS.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", "))]
    Unknown {
        /// The name given.
        name: String,
    },
    /// Part of the plan is wrong.
    #[error("plan {plan}: {why}")]
    Bad {
        plan: String,
        /// The fault.
        why: String,
    },
}

/// A plan shipped with the program.
///
/// # Errors
/// No shipped plan has this name.
pub fn shipped(name: &str) -> Result<SweepPlan, PlanError> {
    let found = PLANS.iter().find(|(known, _)| known == name);
    let (name, text) = found.ok_or_else(|| PlanError::Unknown { name: name.into() })?;
    SweepPlan::parse(name, text)
}

impl SweepPlan {
    /// Parses a plan.
    ///
    /// # Errors
    /// The fault, and its place in the file.
    pub fn parse(file: &str, text: &str) -> Result<SweepPlan, PlanError> {
        let plan: SweepPlan = toml::from_str(text).map_err(|error| {
            let why = error.to_string();
            PlanError::Parse { file: file.into(), why: why.trim_end().to_owned() }
        })?;
        plan.check()?;
        Ok(plan)
    }

    /// Refuses a plan that cannot be measured.
    ///
    /// # Errors
    /// The fault in the plan.
    pub fn check(&self) -> Result<(), PlanError> {
        self.link()?;
        self.duration()?;
        self.cells()?.iter().try_for_each(|cell| self.work(cell).and_then(|_| self.settings(cell)).map(drop))?;
        for (at, factor) in self.factors.iter().enumerate() {
            if self.factors[..at].iter().any(|other| other.name == factor.name) {
                return Err(self.bad(format!("there are two factors \"{}\": give one of them all levels", factor.name)));
            }
            // Its levels would be the same measurement under several names.
            if !self.uses(factor) {
                return Err(self.bad(format!("nothing varies with the factor \"{0}\": no value holds {{{0}}}", factor.name)));
            }
        }
        Ok(())
    }

    fn bad(&self, why: impl Into<String>) -> PlanError {
        PlanError::Bad { plan: self.name.clone(), why: why.into() }
    }

    /// All combinations, as indices of levels; the one with the first level of every factor comes first.
    pub(crate) fn cells(&self) -> Result<Vec<Vec<usize>>, PlanError> {
        if let Some(factor) = self.factors.iter().find(|factor| factor.levels.len() < 2) {
            return Err(self.bad(format!("the factor \"{}\" has fewer than two levels: there is nothing to vary", factor.name)));
        }
        if self.factors.is_empty() {
            return Err(self.bad(match &self.left_out[..] {
                [] => "it varies nothing: give it a [[factor]] with levels".to_owned(),
                left_out => format!("nothing is left to vary: {}", left_out.join("; ")),
            }));
        }
        let mut cells: Vec<Vec<usize>> = vec![vec![0; self.factors.len()]];
        match self.design {
            Design::OneAtATime => {
                for (at, factor) in self.factors.iter().enumerate() {
                    cells.extend((1..factor.levels.len()).map(|level| {
                        let mut cell = vec![0; self.factors.len()];
                        cell[at] = level;
                        cell
                    }));
                }
            }
            Design::Factorial => {
                for (at, factor) in self.factors.iter().enumerate() {
                    if cells.len().saturating_mul(factor.levels.len()) > MOST_CELLS {
                        return Err(self.bad(format!("more than {MOST_CELLS} combinations: vary less, or one at a time")));
                    }
                    let with = |cell: &Vec<usize>, level| {
                        let mut cell = cell.clone();
                        cell[at] = level;
                        cell
                    };
                    cells = cells.iter().flat_map(|cell| (0..factor.levels.len()).map(move |level| with(cell, level))).collect();
                }
            }
        }
        Ok(cells)
    }

    /// The names of a combination's levels.
    pub(crate) fn names(&self, cell: &[usize]) -> Vec<String> {
        self.factors.iter().zip(cell).map(|(factor, level)| factor.levels[*level].name().to_owned()).collect()
    }

    /// The work of a combination.
    pub(crate) fn work(&self, cell: &[usize]) -> Result<CellWork, PlanError> {
        let number = |what: &str, text: &Option<String>, default: u32| match text {
            None => Ok(default),
            Some(text) => {
                let text = self.fill(text, cell)?;
                let number = parse_number(text.trim()).ok().and_then(|number| u32::try_from(number).ok());
                number.filter(|n| *n > 0).ok_or_else(|| self.bad(format!("{what} = \"{text}\" is not a number")))
            }
        };
        let path = self.fill(&self.path, cell)?;
        let spec: Spec = path.parse().map_err(|error| self.bad(format!("{error}")))?;
        let size = number("size", &self.size, 64)?;
        let bulk = self.bulk.as_ref().map(|text| self.fill(text, cell)).transpose()?;
        Ok(CellWork {
            spec,
            request: number("request", &self.request, size)?,
            reply: number("reply", &self.reply, size)?,
            flows: number("flows", &self.flows, 1)?,
            outstanding: number("outstanding", &self.outstanding, 1)?,
            bulk: bulk.map_or(Ok(0), |text| streams(&text).map_err(|why| self.bad(why)))?,
        })
    }

    /// The plan without the optional factors that this host lacks: `missing` returns the reason for each. Such a factor stays at
    /// its first level, and the reason is added to `left_out`.
    #[must_use]
    pub fn without_missing(mut self, missing: impl Fn(&Setting) -> Option<String>) -> SweepPlan {
        for at in (0..self.factors.len()).rev().filter(|at| self.factors[*at].optional).collect::<Vec<_>>() {
            let braced = format!("{{{}}}", self.factors[at].name);
            let asked = self.factors[at].levels.iter().flat_map(|level| {
                let of_factor = self.knobs.iter().filter(|knob| knob.contains(&braced));
                of_factor.filter_map(|knob| knob.replace(&braced, level.value()).parse::<Setting>().ok()).collect::<Vec<_>>()
            });
            let Some(why) = asked.collect::<Vec<_>>().iter().find_map(&missing) else { continue };
            let factor = self.at_its_first_level(at);
            let others = factor.levels[1..].iter().map(Level::name).collect::<Vec<_>>().join(", ");
            self.left_out.push(format!("{} {others}: {why}", factor.name));
        }
        self
    }

    /// Takes a factor out: it stays at its first level.
    fn at_its_first_level(&mut self, at: usize) -> Factor {
        let factor = self.factors.remove(at);
        let (braced, first) = (format!("{{{}}}", factor.name), factor.levels[0].value());
        let texts = [Some(&mut self.path), self.size.as_mut(), self.request.as_mut(), self.reply.as_mut(), self.flows.as_mut()];
        let texts = texts.into_iter().chain([self.outstanding.as_mut(), self.bulk.as_mut()]);
        for text in texts.flatten().chain(&mut self.knobs) {
            *text = text.replace(&braced, first);
        }
        factor
    }

    /// The plan without the levels of optional factors of the path that this host lacks: `lacks` tries a combination, and returns
    /// the reason. It is called for each level but the first, with the first level of every other factor. A factor that keeps
    /// only its first level is taken out.
    ///
    /// # Errors
    /// The error of `lacks`.
    pub(crate) fn without_lacking<E>(
        mut self,
        mut lacks: impl FnMut(&SweepPlan, &[usize]) -> Result<Option<String>, E>,
    ) -> Result<SweepPlan, E> {
        let mut at = 0;
        while at < self.factors.len() {
            if !self.factors[at].optional || !self.path.contains(&format!("{{{}}}", self.factors[at].name)) {
                at += 1;
                continue;
            }
            for level in (1..self.factors[at].levels.len()).rev() {
                let mut cell = vec![0; self.factors.len()];
                cell[at] = level;
                if let Some(why) = lacks(&self, &cell)? {
                    let level = self.factors[at].levels.remove(level);
                    self.left_out.push(format!("{} {}: {why}", self.factors[at].name, level.name()));
                }
            }
            if self.factors[at].levels.len() == 1 {
                self.at_its_first_level(at);
            } else {
                at += 1;
            }
        }
        Ok(self)
    }

    /// The settings of the host for a combination.
    ///
    /// # Errors
    /// No setting has this name or value.
    pub fn settings(&self, cell: &[usize]) -> Result<Vec<Setting>, PlanError> {
        let filled = self.knobs.iter().map(|knob| self.fill(knob, cell));
        let set = filled.filter(|text| !text.as_ref().is_ok_and(|text| text.ends_with(AS_IS)));
        set.map(|text| text?.parse().map_err(|error: SettingError| self.bad(error.to_string()))).collect()
    }

    /// The settings of every combination, in order; empty if the plan has none.
    ///
    /// # Errors
    /// The errors of [`settings`](SweepPlan::settings).
    pub fn all_settings(&self) -> Result<Vec<Vec<Setting>>, PlanError> {
        if self.knobs.is_empty() {
            return Ok(Vec::new());
        }
        self.cells()?.iter().map(|cell| self.settings(cell)).collect()
    }

    /// True if some value of the plan, or a level of another factor, holds the factor's name in braces.
    fn uses(&self, factor: &Factor) -> bool {
        let braced = format!("{{{}}}", factor.name);
        let of_work = [&self.size, &self.request, &self.reply, &self.flows, &self.outstanding, &self.bulk].into_iter().flatten();
        let of_levels = self.factors.iter().flat_map(|factor| &factor.levels).map(Level::value);
        let all = [&self.path].into_iter().chain(of_work).chain(&self.knobs).map(String::as_str);
        all.chain(of_levels).any(|text| text.contains(&braced))
    }

    fn fill(&self, template: &str, cell: &[usize]) -> Result<String, PlanError> {
        let mut text = template.to_owned();
        for (factor, level) in self.factors.iter().zip(cell) {
            text = text.replace(&format!("{{{}}}", factor.name), factor.levels[*level].value());
        }
        match text.find('{') {
            Some(_) => Err(self.bad(format!("\"{template}\" names a factor that the plan has not: \"{text}\""))),
            None => Ok(text),
        }
    }

    /// The link of the round trips.
    ///
    /// # Errors
    /// The text is not a link.
    pub fn link(&self) -> Result<LinkSpec, PlanError> {
        let text = self.link.as_deref().unwrap_or("loopback");
        text.parse().map_err(|error: hairpin_session::link::LinkError| self.bad(error.to_string()))
    }

    pub(crate) fn duration(&self) -> Result<Duration, PlanError> {
        let text = self.duration.as_deref().unwrap_or("60s");
        parse_duration(text).map(Duration::from).map_err(|error| self.bad(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "t"
path = "tcp:nodelay={nagle},quickack={ack}"
size = "{payload}"
[[factor]]
name = "payload"
levels = ["4", "1460"]
[[factor]]
name = "nagle"
levels = [{ name = "off", value = "on" }, { name = "on", value = "off" }]
[[factor]]
name = "ack"
levels = ["off", "on", "kernel"]
"#;

    #[test]
    fn every_combination_once_the_first_levels_first() {
        let plan = SweepPlan::parse("t.toml", TEXT).unwrap();
        let cells = plan.cells().unwrap();
        assert_eq!(cells.len(), 12);
        assert_eq!(cells[0], [0, 0, 0]);
        let distinct: std::collections::BTreeSet<_> = cells.iter().collect();
        assert_eq!(distinct.len(), 12);
        let work = plan.work(&[1, 1, 0]).unwrap();
        assert_eq!(work.spec.to_string(), "tcp:block,nodelay=off,quickack=off/tcp:block,nodelay=off,quickack=off");
        assert_eq!((work.request, work.reply, work.bulk), (1460, 1460, 0));
        assert_eq!(plan.names(&[1, 1, 0]), ["1460", "on", "off"]);
        let one = SweepPlan { design: Design::OneAtATime, ..plan };
        assert_eq!(one.cells().unwrap(), [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 2]]);
    }

    #[test]
    fn settings_of_the_host_are_varied_too() {
        let text = TEXT.replace("path =", "knobs = [\"cpu_dma_latency_us={idle}\"]\npath =")
            + "[[factor]]\nname = \"idle\"\nlevels = [\"as-is\", \"0\"]\n";
        let plan = SweepPlan::parse("t.toml", &text).unwrap();
        let words = |cell: &[usize]| plan.settings(cell).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!((words(&[0, 0, 0, 0]), words(&[0, 0, 0, 1])), (vec![], vec!["cpu_dma_latency_us=0".to_owned()]));
        assert_eq!(plan.all_settings().unwrap().len(), 24);
        let wrong = text.replace("cpu_dma_latency_us=", "cpu_latency=");
        assert!(SweepPlan::parse("t.toml", &wrong).unwrap_err().to_string().contains("no setting \"cpu_latency\""));
    }

    #[test]
    fn a_factor_that_the_host_lacks_stands_at_its_first_level_and_says_why() {
        let text = TEXT.replace("path =", "knobs = [\"rx_usecs={coalescing}\"]\nbulk = \"{beside}\"\npath =")
            + "[[factor]]\nname = \"coalescing\"\nlevels = [\"as-is\", \"0\"]\noptional = true\n\
               [[factor]]\nname = \"beside\"\nlevels = [\"none\", \"tcp:2\"]\n";
        let plan = SweepPlan::parse("t.toml", &text).unwrap();
        assert_eq!(plan.work(&[0, 0, 0, 0, 1]).unwrap().bulk, 2);
        let there = plan.clone().without_missing(|_| None);
        assert_eq!(there, plan);
        let without = plan.without_missing(|setting| (setting.knob.name == "rx_usecs").then(|| "no NIC".into()));
        assert_eq!(without.factors.len(), 4);
        assert_eq!(without.left_out, ["coalescing 0: no NIC"]);
        assert_eq!(without.all_settings().unwrap(), vec![vec![]; 24]);
        let wrong = text.replace("tcp:2", "udp:2");
        assert!(SweepPlan::parse("t.toml", &wrong).unwrap_err().to_string().contains("write tcp:N"));
    }

    #[test]
    fn levels_of_an_optional_path_that_the_host_lacks_are_left_out() {
        let text = "name = \"t\"\npath = \"{way}\"\n[[factor]]\nname = \"way\"\nlevels = [\"udp:block\", \"udp:spin\", \"tcp:spin\"]\noptional = true\n";
        let plan = SweepPlan::parse("t.toml", text).unwrap();
        let lacks = |plan: &SweepPlan, cell: &[usize]| {
            let spec = plan.work(cell).unwrap().spec.to_string();
            if spec.starts_with("tcp:block") { Err(spec) } else { Ok(spec.starts_with("udp:spin").then(|| "too old".to_owned())) }
        };
        let left = plan.clone().without_lacking(lacks).unwrap();
        assert_eq!(left.cells().unwrap().iter().map(|cell| left.names(cell)).collect::<Vec<_>>(), [["udp:block"], ["tcp:spin"]]);
        assert_eq!(left.left_out, ["way udp:spin: too old"]);
        let none = plan.clone().without_lacking(|_, _| Ok::<_, String>(Some("too old".to_owned()))).unwrap();
        assert_eq!((none.path.as_str(), none.factors.len()), ("udp:block", 0));
        let why = none.cells().unwrap_err().to_string();
        assert_eq!(why, "plan t: nothing is left to vary: way tcp:spin: too old; way udp:spin: too old");
        let plain = SweepPlan { factors: vec![Factor::new("way", plan.factors[0].levels.clone())], ..plan };
        assert_eq!(plain.clone().without_lacking(lacks), Ok(plain), "it is not optional");
    }

    #[test]
    fn rejects_invalid_plans_with_a_reason() {
        let wrong = |text: &str| SweepPlan::parse("t.toml", text).unwrap_err().to_string();
        for (text, part) in [
            ("name = 1", "t.toml is not a plan"),
            ("name = \"t\"\npath = \"udp\"\nfactor = []", "it varies nothing"),
            ("name = \"t\"\npath = \"udp\"\n[[factor]]\nname = \"a\"\nlevels = [\"1\"]", "fewer than two levels"),
            (
                "name = \"t\"\npath = \"udp:{b}\"\n[[factor]]\nname = \"a\"\nlevels = [\"1\", \"2\"]",
                "a factor that the plan has not",
            ),
            (
                "name = \"t\"\npath = \"udp\"\nsize = \"{a}\"\n[[factor]]\nname = \"a\"\nlevels = [\"x\", \"2\"]",
                "size = \"x\" is not a number",
            ),
            (
                "name = \"t\"\npath = \"udp\"\nsize = \"64\"\n[[factor]]\nname = \"payload\"\nlevels = [\"4\", \"64\"]",
                "nothing varies with the factor \"payload\": no value holds {payload}",
            ),
            (
                "name = \"t\"\npath = \"udp\"\nsize = \"{a}\"\n[[factor]]\nname = \"a\"\nlevels = [\"1\", \"4\"]\n[[factor]]\nname = \"a\"\nlevels = [\"1\", \"16\"]",
                "two factors \"a\"",
            ),
            ("name = \"t\"\npath = \"dup\"\n[[factor]]\nname = \"a\"\nlevels = [\"1\", \"2\"]", "there is no path \"dup\""),
            ("name = \"t\"\npath = \"udp\"\nspeed = \"1\"\n[[factor]]\nname = \"a\"\nlevels = [\"1\", \"2\"]", "unknown field"),
        ] {
            let said = wrong(text);
            assert!(said.contains(part), "{text}: {said}");
        }
        assert!(shipped("moon-fire").unwrap_err().to_string().contains("sun-fire, busy-poll"));
    }

    #[test]
    fn every_shipped_plan_can_be_measured() {
        for (name, _) in &*PLANS {
            let plan = shipped(name).unwrap();
            assert_eq!(plan.name, *name);
            assert!(!plan.title.is_empty());
            plan.link().unwrap();
            plan.duration().unwrap();
            for cell in plan.cells().unwrap() {
                plan.work(&cell).unwrap();
            }
        }
    }
}
