//! The tables: 80 columns, every row.

use std::fmt::Write as _;

use hairpin_record::paired::Shift;
use hairpin_record::run::{Row, Run};

use super::super::bound::{Limit, Word, of_rounds};

/// Largest distance of a figure from the published one, in percent.
const BOUND: f64 = 1.0;
/// Value of `/dev/cpu_dma_latency` without any demand, in us.
const UNHELD: u64 = 2_000_000_000;

/// One size of the published table; half round trips in ns, a value of each round.
#[derive(Default)]
pub(crate) struct Line {
    payload: u64,
    published: f64,
    p50: Vec<f64>,
    mean: Vec<f64>,
    unstalled: Vec<f64>,
    stalled: u64,
    count: u64,
}

impl Line {
    fn add(&mut self, row: &Row) -> Result<(), String> {
        let missing = |what: &str| format!("{} of {} bytes: the record has no {what}", row.path, row.request_bytes);
        let niq = row.niq.as_deref().ok_or_else(|| missing("emulated NIC"))?;
        self.payload = row.request_bytes;
        // At the sizes of its table a preset declares the published figure unchanged, which the model's own tests hold.
        self.published = niq.request_ns.ok_or_else(|| missing("declared time"))?.as_ns_f64();
        self.p50.push(row.rtt_ns.p50.ok_or_else(|| missing("median"))? as f64 / 2.0);
        self.mean.push(row.rtt_ns.mean.ok_or_else(|| missing("mean"))? / 2.0);
        self.unstalled.push(niq.rtt_mean_without_stalled_ns.ok_or_else(|| missing("mean without stalls"))? / 2.0);
        self.stalled += niq.stalled.ok_or_else(|| missing("count of stalls"))?;
        self.count += row.rtt_ns.count;
        Ok(())
    }

    /// One of these figures over the published mean, with its interval over the rounds.
    fn over(&self, of: &[f64]) -> Option<Shift> {
        of_rounds(&of.iter().map(|ns| ns / self.published).collect::<Vec<_>>())
    }

    /// The word for p50 and for the mean without stalled; the worse one.
    pub(crate) fn word(&self) -> Word {
        let words = [&self.p50, &self.unstalled].map(|of| Limit::Within(BOUND / 100.0).of(self.over(of)));
        words.into_iter().max().unwrap_or(Word::None)
    }
}

/// The published table's sizes, each over all rounds.
pub(crate) fn what_if(rounds: &[Run]) -> Result<Vec<Line>, String> {
    let sizes = rounds.first().map_or(0, |run| run.results.len());
    let mut lines: Vec<Line> = (0..sizes).map(|_| Line::default()).collect();
    for run in rounds {
        lines.iter_mut().zip(&run.results).try_for_each(|(line, row)| line.add(row))?;
    }
    Ok(lines)
}

/// Both tables.
pub(crate) fn text(lines: &[Line], trades: &[&Run], seconds: f64) -> Result<String, String> {
    let typical = |of: Option<Shift>| of.map_or(f64::NAN, |of| of.typical);
    let percent = |of: f64| 100.0 * (of - 1.0);
    let beyond = lines.iter().filter(|line| percent(typical(line.over(&line.mean))).abs() > BOUND).count();
    let rounds = lines.first().map_or(0, |line| line.p50.len());
    let mut text = format!(
        "Timing accuracy of the emulated device: what it was told to take is the published mean of sniffer10g less its\n\
         own part, and comes back; niq:spin, {rounds} rounds of {seconds} s a size; RTT/2 in us. Nothing here is a NIC's.\n\
         Judged are the p50 and the mean without the transactions that overlap a stall of either core (\"stalled\", the\n\
         share that this mean leaves out): the whole 95 % interval of the error within {BOUND} % of the published mean. The\n\
         plain mean is not judged; it is beyond {BOUND} % in {beyond} of {} rows.\n\n\
         {:>6} {:>9} {:>7} {:>22} {:>8} {:>15} {:>22} {:>8}\n",
        lines.len(),
        "size",
        "published",
        "p50",
        "error in %",
        "mean",
        "without stalled",
        "error in %",
        "stalled"
    );
    for line in lines {
        let us = |of: Option<Shift>| typical(of) * line.published / 1e3;
        let error = |of: Option<Shift>| match of {
            Some(of) => format!("{:.2} ({:.2} to {:.2})", percent(of.typical), percent(of.low), percent(of.high)),
            None => "-".to_owned(),
        };
        let (p50, mean, unstalled) = (line.over(&line.p50), line.over(&line.mean), line.over(&line.unstalled));
        let share = 100.0 * line.stalled as f64 / line.count.max(1) as f64;
        let _ = writeln!(
            text,
            "{:>6} {:>9.2} {:>7.3} {:>22} {:>8.3} {:>15.3} {:>22} {share:>6.2} % {}",
            line.payload,
            line.published / 1e3,
            us(p50),
            error(p50),
            us(mean),
            us(unstalled),
            error(unstalled),
            line.word(),
        );
    }
    let _ = write!(
        text,
        "\nPolling or interrupts: 18 bytes, nothing declared; RTT in us, CPU time (user and\n\
         system) per transaction in us. Held: /dev/cpu_dma_latency\n\n\
         {:<10} {:<10} {:>9} {:>8} {:>8} {:>9} {:>9}\n{:<10} {:<10} {:>9} {:>8} {:>8} {:>9} {:>9}\n",
        "", "", "", "", "", "CPU", "CPU", "path", "held", "trans/s", "p50", "p99", "client", "server"
    );
    for run in trades {
        for row in &run.results {
            text.push_str(&traded(run, row));
        }
    }
    let [as_it_is, held] = trades else { return Err("two trades make a comparison".into()) };
    if held.place.hosts.client.facts.get("cpu_dma_latency_us").and_then(serde_json::Value::as_u64) != Some(0) {
        return Err("/dev/cpu_dma_latency was not held at 0 while the second trade was measured".into());
    }
    for (before, after) in as_it_is.results.iter().zip(&held.results) {
        if let (true, Some(a), Some(b)) = (before.path.contains("block"), before.rtt_ns.p50, after.rtt_ns.p50) {
            let less = (a as f64 - b as f64) / 1e3;
            let _ = writeln!(text, "{}: {less:.2} us less a round trip (p50) where cores stay awake", spec(before));
        }
    }
    Ok(text)
}

fn traded(run: &Run, row: &Row) -> String {
    let held = match run.place.hosts.client.facts.get("cpu_dma_latency_us").and_then(serde_json::Value::as_u64) {
        Some(UNHELD) => "nobody".to_owned(),
        Some(us) => format!("at {us} us"),
        None => "unread".to_owned(),
    };
    let us = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| format!("{:.3}", ns / 1e3));
    let (rtt, cpu) = (&row.rtt_ns, &row.cpu);
    let server = cpu.server.as_ref().and_then(|side| side.per_transaction_ns);
    format!(
        "{:<10} {held:<10} {:>9.0} {:>8} {:>8} {:>9} {:>9}\n",
        spec(row),
        row.transactions_per_s,
        us(rtt.p50.map(|ns| ns as f64)),
        us(rtt.p99.map(|ns| ns as f64)),
        us(cpu.client.per_transaction_ns),
        us(server)
    )
}

/// Both sides are equal, so one row covers both.
fn spec(row: &Row) -> &str {
    row.path.split('/').next().unwrap_or(&row.path)
}
