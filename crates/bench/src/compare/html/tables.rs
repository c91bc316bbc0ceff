//! The tables of the page.

use uzswap_page::escape;

use super::super::promises::Row;
use super::super::results::{MemoryUse, WorkloadResult};
use super::super::side::Side;
use super::super::text::{COUNTERS, mib, number};

/// The bar, with a meter each: the mark in its middle is the target.
pub(super) fn promises(rows: &[Row]) -> String {
    let body = rows.iter().map(|row| {
        let class = row.verdict().replace(' ', "-");
        format!(
            "<tr><td>{}</td><td>{}</td><td><b>{}</b></td><td class=\"meter\">{}</td><td><span class=\"badge {class}\">{}</span></td></tr>",
            escape(&row.figure),
            escape(&row.target),
            escape(&row.measured_text()),
            meter(row),
            row.verdict()
        )
    });
    format!(
        "<table><thead><tr><th>figure</th><th>target</th><th>measured</th><th></th><th></th></tr></thead><tbody>{}</tbody></table>",
        body.collect::<String>()
    )
}

fn meter(row: &Row) -> String {
    let Some(share) = row.share else {
        return String::new();
    };
    // Half is just met; twice as good fills it.
    let percent = (share * 50.0).clamp(2.0, 100.0);
    let class = row.verdict().replace(' ', "-");
    format!("<div class=\"{class}\"><i style=\"width:{percent:.0}%\"></i></div>")
}

/// What the kernel and uzswap counted, and what they held.
pub(super) fn counters_and_memory(workload: &WorkloadResult) -> String {
    let sides = workload.sides();
    let head: String = sides.iter().map(|side| format!("<th>{}</th>", side.name())).collect();
    let mut body = String::new();
    for name in COUNTERS {
        let values: Vec<Option<f64>> = sides.iter().map(|side| workload.counter(*side, name)).collect();
        if values.iter().flatten().any(|value| *value > 0.0) {
            let cells = values
                .into_iter()
                .map(|value| value.map_or("-".to_owned(), |value| number(value, 0)));
            body += &row(name, cells);
        }
    }
    let memory: Vec<(Side, MemoryUse)> = sides.iter().map(|side| (*side, workload.memory(*side))).collect();
    let of = |read: fn(&MemoryUse) -> u64| memory.iter().map(move |(_, memory)| mib(read(memory)));
    if memory.iter().any(|(_, memory)| memory.total_peak > 0) {
        body += &row("resident, largest", of(|memory| memory.resident_peak));
        body += &row("pool, largest", of(|memory| memory.pool_peak));
        body += &row("both at a time, largest", of(|memory| memory.total_peak));
        body += &row("equal memory", memory.iter().map(|(_, memory)| held(memory)));
        body += &row("swap device, largest", of(|memory| memory.disk_peak));
    }
    format!("<table><thead><tr><th></th>{head}</tr></thead><tbody>{body}</tbody></table>")
}

/// Cells are HTML already.
fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr><td>{}</td>{cells}</tr>", escape(name))
}

fn held(memory: &MemoryUse) -> String {
    match (memory.off_target(), memory.is_held()) {
        (Some(off), Some(true)) => format!("held <small>{:+.1}% of {}</small>", off * 100.0, mib(memory.target)),
        (Some(off), _) => {
            let off = format!("{:+.1}% of {}", off * 100.0, mib(memory.target));
            format!("<span class=\"not-held\">not held</span> <small>{off}</small>")
        }
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn who_had_more_is_told() {
        let memory = |total_peak| MemoryUse {
            target: 100 << 20,
            total_peak,
            ..MemoryUse::default()
        };
        assert!(held(&memory(120 << 20)).contains("not held"));
        assert!(held(&memory(101 << 20)).starts_with("held"));
        assert_eq!(held(&MemoryUse::default()), "-");
    }
}
