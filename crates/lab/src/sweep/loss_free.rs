//! Frames per second without loss, next to the round trips of a sweep: the price of low latency in throughput.
//!
//! Measured once per io and setting of the host, after the rounds: the search of [`stream`](crate::stream), with the server
//! receiving.

use hairpin_plan::job::Sides;
use hairpin_plan::spec::SideSpec;
use hairpin_record::stream::{Direction, StreamRow};
use hairpin_record::sweep::LossFree;
use hairpin_sys::signal::Signals;

use super::{Ask, SweepPlan};
use crate::experiment::Switch;
use crate::stream::{self, StreamError, StreamWatcher};
use hairpin_session::io::IoPair;
use hairpin_session::link::LinkSpec;
use hairpin_session::plan::Target;

/// The rows found, and the reason for each that was not measured.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) found: Vec<LossFree>,
    pub(crate) left_out: Vec<String>,
    pub(crate) interrupted: bool,
}

/// An io at a setting of the host.
#[derive(Debug, PartialEq)]
struct Way {
    io: Result<IoPair, String>,
    /// The levels of the factors that matter to it.
    levels: Vec<Option<String>>,
    /// A cell with these levels.
    cell: usize,
}

impl Beside {
    fn leave_out(&mut self, why: &str) {
        let sentence = format!("frames per second without loss: {why}");
        if !self.left_out.contains(&sentence) {
            self.left_out.push(sentence);
        }
    }

    /// Measures all ios of the plan, if it asks for them.
    pub(crate) fn measure(
        &mut self,
        plan: &SweepPlan,
        cells: &[Vec<usize>],
        target: &Target,
        ask: &Ask,
        signals: &Signals,
        switch: &mut dyn Switch,
    ) {
        let Some(bytes) = plan.loss_free_frame else { return };
        let Target::Link(LinkSpec::Veth(veth)) = target else {
            self.leave_out(match target {
                Target::Link(_) => "loopback has no frames on a wire",
                _ => "what another host loses is not known here; run `hairpin stream -i IF` on both",
            });
            return;
        };
        for way in ways(plan, cells) {
            let io = match way.io {
                Ok(io) => io,
                Err(why) => {
                    self.leave_out(&why);
                    continue;
                }
            };
            let name = io.to_string();
            let row = stream::Ask { io, direction: Direction::Receive, bytes, optional: false };
            let asked = stream::StreamPlan {
                target: stream::Target::Veth(veth.clone()),
                rows: vec![row],
                queues: 1,
                duration: None,
                per_s: None,
                cpus: Sides { client: None, server: None },
                cookie: ask.seed,
                command: ask.command.clone(),
            };
            let made = switch.to(way.cell).map_err(StreamError::Ended);
            match made.and_then(|()| stream::run(&asked, signals, &mut Silent)) {
                Ok(record) => {
                    self.interrupted |= record.head.interrupted;
                    if let Some(error) = record.head.error {
                        self.leave_out(&error);
                    }
                    self.found.extend(record.body.results.into_iter().map(|row| of(row, way.levels.clone(), bytes)));
                }
                Err(StreamError::Interrupted) => self.interrupted = true,
                Err(error) => self.leave_out(&format!("{name}: {error}")),
            }
            if self.interrupted {
                return;
            }
        }
    }
}

struct Silent;
impl StreamWatcher for Silent {}

/// Each io and setting once, in the order of the cells. Factors outside the path and the settings do not matter.
fn ways(plan: &SweepPlan, cells: &[Vec<usize>]) -> Vec<Way> {
    let concerns = |name: &str| {
        let braced = format!("{{{name}}}");
        plan.path.contains(&braced) || plan.knobs.iter().any(|knob| knob.contains(&braced))
    };
    let mut ways: Vec<Way> = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        let named = plan.factors.iter().zip(plan.names(cell));
        let levels: Vec<Option<String>> = named.map(|(factor, level)| concerns(&factor.name).then_some(level)).collect();
        if ways.iter().any(|way| way.levels == levels) {
            continue;
        }
        let Ok(work) = plan.work(cell) else { continue };
        let side = |side: &SideSpec| format!("{}:{}", side.path.name, side.policy);
        let io = format!("{}/{}", side(&work.spec.client), side(&work.spec.server));
        let io = io.parse::<IoPair>().map_err(|_| format!("{} sends no frames of its own", side(&work.spec.client)));
        ways.push(Way { io, levels, cell: at });
    }
    ways
}

fn of(row: StreamRow, levels: Vec<Option<String>>, frame_bytes: u64) -> LossFree {
    LossFree {
        levels,
        io: row.io,
        frame_bytes,
        frames_per_s: row.lossless.map(|trial| trial.offered_per_s),
        offered_per_s: row.offered.offered_per_s,
        trials: row.search.len() as u32,
        warnings: row.warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_io_is_measured_once_per_setting_and_not_per_payload() {
        let text = r#"
name = "t"
path = "{path}:spin"
size = "{payload}"
knobs = ["cpu_dma_latency_us={idle}"]
[[factor]]
name = "path"
levels = ["udp", "packet"]
[[factor]]
name = "payload"
levels = ["1", "2048"]
[[factor]]
name = "idle"
levels = ["as-is", "0"]
"#;
        let plan = SweepPlan::parse("t.toml", text).unwrap();
        let cells = plan.cells().unwrap();
        let ways = ways(&plan, &cells);
        let seen: Vec<(bool, Vec<Option<&str>>)> =
            ways.iter().map(|way| (way.io.is_ok(), way.levels.iter().map(Option::as_deref).collect())).collect();
        assert_eq!(
            seen,
            [
                (false, vec![Some("udp"), None, Some("as-is")]),
                (false, vec![Some("udp"), None, Some("0")]),
                (true, vec![Some("packet"), None, Some("as-is")]),
                (true, vec![Some("packet"), None, Some("0")]),
            ]
        );
        assert_eq!(ways[2].io.as_ref().unwrap().to_string(), "packet:spin/packet:spin");
        assert_eq!(plan.names(&cells[ways[3].cell])[2], "0");
    }
}
