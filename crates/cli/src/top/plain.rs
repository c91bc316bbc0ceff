//! The table as lines, for pipes and terminals that can do no more: all groups and their
//! processes.

use super::columns;
use super::rows::{Branch, Row};
use super::text;

/// A name as `uzswap list` has it, and the column.
type Titled = (&'static str, &'static str);

const COLUMNS: [Titled; 13] = [
    ("CURRENT", "MEM"),
    ("MAX", "MAX"),
    ("RESIDENT", "RES"),
    ("POOL", "POOL"),
    ("RATIO", "RATIO"),
    ("SWAP", "DISK"),
    ("LACKS", "LACKS"),
    ("WAIT%", "WAIT%"),
    ("FAULT/S", "FLT/S"),
    ("ZIN/S", "ZIN/S"),
    ("ZOUT/S", "ZOUT/S"),
    ("SWIN/S", "SWIN/S"),
    ("SWOUT/S", "SWOUT/S"),
];
const NAME_WIDTH: usize = 20;
const CELL_WIDTH: usize = 8;

/// A line for each group and process, as far as they fit into so many columns of a terminal.
pub(super) fn table(branches: &[Branch], width: usize) -> String {
    let columns = fitting(width);
    let mut text = line("GROUP / PID", &columns, |(name, _)| (*name).to_owned());
    for branch in branches {
        text += &row(&branch.heading.key.group, &columns, &branch.heading);
        for process in &branch.processes {
            let pid = process.key.pid.unwrap_or_default();
            text += &row(&format!("  {pid} {}", process.label), &columns, process);
        }
    }
    if branches.is_empty() {
        text += "no group is running\n";
    }
    text
}

/// The most important.
fn fitting(width: usize) -> Vec<Titled> {
    let mut ranks = COLUMNS.map(|(_, column)| columns::rank(column));
    ranks.sort_unstable();
    let fit = width.saturating_sub(NAME_WIDTH) / (CELL_WIDTH + 1);
    let ranks = &ranks[..fit.min(ranks.len())];
    let is_shown = |(_, column): &Titled| ranks.contains(&columns::rank(column));
    COLUMNS.into_iter().filter(is_shown).collect()
}

fn row(name: &str, columns: &[Titled], row: &Row) -> String {
    line(&text::cut(name, NAME_WIDTH), columns, |(_, column)| {
        columns::named(column).text(row)
    })
}

fn line(name: &str, columns: &[Titled], cell: impl Fn(&Titled) -> String) -> String {
    let cells = columns.iter().map(|column| format!(" {:>CELL_WIDTH$}", cell(column)));
    let line = format!("{name:<NAME_WIDTH$}{}", cells.collect::<String>());
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod test {
    use super::super::rows::branches;
    use super::super::rows::test::{group, process};
    use super::*;

    #[test]
    fn a_table_has_a_line_for_each() {
        let long = "a-name-of-a-group-that-is-longer-than-its-column";
        let now = [
            group("web", 64, &[process(7, "python3 job.py", 3)]),
            group(long, 4, &[]),
        ];
        let branches = branches(&[], &now, 1.0);
        let text = table(&branches, usize::MAX);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words.len(), 4);
        assert_eq!(words[0][..5], ["GROUP", "/", "PID", "CURRENT", "MAX"]);
        assert_eq!(
            words[1][..7],
            ["web", "64.0M", "128M", "48.0M", "12.8M", "2.50", "8.00M"]
        );
        assert_eq!(words[2][..5], ["7", "python3", "job.py", "3.00M", "2.25M"]);
        assert!(words[3][0].starts_with("a-name-of-a-group-") && words[3][0].ends_with('…'));
        assert!(table(&[], 80).ends_with("no group is running\n"));
        for width in 40..200 {
            let text = table(&branches, width);
            assert!(text.lines().all(|line| text::width(line) <= width), "{text}");
        }
        let titles = table(&branches, 80);
        let titles: Vec<&str> = titles.lines().next().unwrap().split_whitespace().skip(3).collect();
        assert_eq!(titles, ["CURRENT", "MAX", "RESIDENT", "POOL", "WAIT%", "FAULT/S"]);
    }
}
