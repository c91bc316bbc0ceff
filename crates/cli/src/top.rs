//! `uzswap top`: the running groups and their processes, again and again.

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use uzswap_ctl::{Field, Group, Limit};
use uzswap_mm::page::PAGE_SIZE;
use uzswap_mm::vmstat::Item;

use crate::Failure;
use crate::group::{self, OpenGroup};
use crate::options::TopOptions;
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

/// Counters of a group at one moment.
type Sample = [u64; RATES.len()];

fn sample(group: &Group) -> Sample {
    RATES.map(|(_, item)| group.vmstat().get(item))
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
        before = groups
            .iter()
            .map(|open| (open.name.clone(), sample(&open.group)))
            .collect();
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
        "{:<20} {:>8} {:>8} {:>8} {:>8} {:>6} {:>8}",
        "GROUP / PID", "CURRENT", "MAX", "RESIDENT", "POOL", "RATIO", "SWAP"
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
        text += &line(&open.name, &max, |field| group.sum(field));
        let now = sample(group);
        for (i, now) in now.iter().enumerate() {
            let rate = before.get(&open.name).map(|then| rate(*now, then[i], seconds));
            text += &format!(" {:>8}", rate.unwrap_or_else(|| "-".to_owned()));
        }
        text.push('\n');
        for slot in open.processes() {
            let pid = group.field(slot, Field::Pid);
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            let who = format!("  {pid} {}", name.trim());
            text += &line(&who, "", |field| group.field(slot, field));
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
        "{who:<20} {:>8} {max:>8} {:>8} {:>8} {ratio:>6} {:>8}",
        Size(field(Field::Charge)).to_string(),
        Size(field(Field::Resident)).to_string(),
        Size(pool).to_string(),
        Size(field(Field::Swapped) * PAGE_SIZE as u64).to_string(),
    )
}
