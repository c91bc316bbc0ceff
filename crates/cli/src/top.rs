//! `uzswap top`: the running groups and their processes, again and again.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use uzswap_ctl::{Field, Limit};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use crate::Failure;
use crate::group::{self, OpenGroup};
use crate::look_options::TopOptions;
use crate::size::Size;

/// Clear the screen, and put the cursor into its first corner.
const CLEAR: &str = "\x1b[2J\x1b[H";

/// What the rates are of.
const RATES: [(&str, Item); 5] = [
    ("FAULT/S", Item::PgFault),
    ("ZIN/S", Item::ZswpIn),
    ("ZOUT/S", Item::ZswpOut),
    ("SWIN/S", Item::PswpIn),
    ("SWOUT/S", Item::PswpOut),
];

/// Counters of a group at one moment, and how long each process has waited, nanoseconds.
struct Sample {
    counts: [u64; RATES.len()],
    waited: HashMap<u64, u64>,
}

fn sample(open: &OpenGroup) -> Sample {
    let group = &open.group;
    let waited = |slot| (group.field(slot, Field::Pid), group.field(slot, Field::Waited));
    Sample {
        counts: RATES.map(|(_, item)| group.vmstat().get(item)),
        waited: open.processes().map(waited).collect(),
    }
}

/// Show the groups every so often, until told to stop or as often as was asked for.
pub(crate) fn top(options: &TopOptions) -> Result<u8, Failure> {
    let interval = Duration::from_secs_f64(options.interval);
    let (mut before, mut looked_at) = (HashMap::new(), Instant::now());
    let mut shown = 0;
    loop {
        let groups = group::running()?;
        let seconds = looked_at.elapsed().as_secs_f64().max(1e-3);
        looked_at = Instant::now();
        let text = page(&groups, &before, seconds);
        before = groups.iter().map(|open| (open.name.clone(), sample(open))).collect();
        let mut out = std::io::stdout().lock();
        let clear = if out.is_terminal() { CLEAR } else { "" };
        if write!(out, "{clear}{text}").and_then(|()| out.flush()).is_err() {
            // Whoever read it has gone.
            return Ok(0);
        }
        shown += 1;
        if options.count.is_some_and(|count| shown >= count) {
            return Ok(0);
        }
        std::thread::sleep(interval);
    }
}

/// One look at all groups. Rates are since the look before; none of a group that was not there
/// then.
fn page(groups: &[OpenGroup], before: &HashMap<String, Sample>, seconds: f64) -> String {
    let mut text = format!(
        "{:<20} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8} {:>8} {:>5}",
        "GROUP / PID", "CURRENT", "MAX", "RESIDENT", "POOL", "RATIO", "SWAP", "LACKS", "WAIT%"
    );
    RATES.iter().for_each(|(name, _)| text += &format!(" {name:>8}"));
    text.push('\n');
    if groups.is_empty() {
        text += "no group is running\n";
    }
    for open in groups {
        let group = &open.group;
        let max = match group.get(Limit::MemoryMax) {
            u64::MAX => "max".to_owned(),
            max => Size(max).to_string(),
        };
        let (now, then) = (sample(open), before.get(&open.name));
        text += &line(&open.name, &max, |field| group.sum(field));
        text += &format!(" {:>5}", "");
        for (i, now) in now.counts.iter().enumerate() {
            let rate = then.map(|then| rate(*now, then.counts[i], seconds));
            text += &format!(" {:>8}", rate.unwrap_or_else(|| "-".to_owned()));
        }
        text.push('\n');
        for slot in open.processes() {
            let pid = group.field(slot, Field::Pid);
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let who = format!("  {pid} {}", name.trim());
            text += &line(&who, "", |field| group.field(slot, field));
            let since = then.and_then(|then| Some(now.waited.get(&pid)?.saturating_sub(*then.waited.get(&pid)?)));
            text += &since.map_or_else(
                || format!(" {:>5}", "-"),
                |ns| format!(" {:>5.0}", ns as f64 / 1e7 / seconds),
            );
            text.push('\n');
        }
    }
    text
}

fn rate(now: u64, then: u64, seconds: f64) -> String {
    format!("{:.0}", now.saturating_sub(then) as f64 / seconds)
}

/// The sizes of a group or a process.
fn line(who: &str, max: &str, field: impl Fn(Field) -> u64) -> String {
    let (stored, pool) = (field(Field::Stored) * PAGE_SIZE as u64, field(Field::Pool));
    let ratio = match pool {
        0 => "-".to_owned(),
        pool => format!("{:.2}", stored as f64 / pool as f64),
    };
    let who: String = who.chars().take(20).collect();
    format!(
        "{who:<20} {:>8} {max:>8} {:>8} {:>8} {ratio:>6} {:>8} {:>8}",
        Size(field(Field::Charge)).to_string(),
        Size(field(Field::Resident)).to_string(),
        Size(pool).to_string(),
        Size(field(Field::Swapped) * PAGE_SIZE as u64).to_string(),
        Size(field(Field::Shortfall)).to_string(),
    )
}
