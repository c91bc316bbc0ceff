//! The two lines on top: sums of all groups, and their limits as a bar.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::rows::Branch;
use super::text;
use uzswap_ctl::size::Size;

/// Signs of the layers of the bar, which stand before their names as well.
const RESIDENT: char = '|';
const POOL: char = '#';
const OTHER: char = '+';
const FREE: char = '.';

/// Bytes of all groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    charge: u64,
    /// `u64::MAX`: some group has no limit.
    max: u64,
    resident: u64,
    pool: u64,
    stored: u64,
    swapped: u64,
    saved: u64,
    groups: usize,
    processes: usize,
}

impl Totals {
    pub(super) fn of(branches: &[Branch]) -> Self {
        let mut totals = Self {
            groups: branches.len(),
            ..Self::default()
        };
        for branch in branches {
            let sizes = branch.heading.sizes;
            totals.charge += sizes.charge;
            totals.max = totals.max.saturating_add(branch.heading.limit().unwrap_or(u64::MAX));
            totals.resident += sizes.resident;
            totals.pool += sizes.pool;
            totals.stored += sizes.stored;
            totals.swapped += sizes.swapped;
            totals.saved += branch.saved;
            totals.processes += branch.processes.len();
        }
        totals
    }

    /// What is charged and neither resident nor of the pool: pages that are staged, the agents'
    /// own, processes without an agent.
    fn other(&self) -> u64 {
        self.charge.saturating_sub(self.resident + self.pool)
    }

    pub(super) fn lines(&self, width: usize, palette: Palette) -> [Line<'static>; 2] {
        [self.sums(width, palette), self.bar(width, palette)]
    }

    fn sums(&self, width: usize, palette: Palette) -> Line<'static> {
        let size = |bytes| Size(bytes).short();
        let ratio = match self.pool {
            0 => "-".to_owned(),
            pool => format!("{:.2}", self.stored as f64 / pool as f64),
        };
        let (texts, styles): (Vec<String>, Vec<Style>) = [
            (
                format!("{RESIDENT}resident {}", size(self.resident)),
                palette.resident(),
            ),
            (format!("{POOL}pool {}", size(self.pool)), palette.pool()),
            (format!("{OTHER}other {}", size(self.other())), palette.other()),
            (format!("disk {}", size(self.swapped)), Style::new()),
            (format!("ratio {ratio}"), Style::new()),
            (format!("saved {}", size(self.saved)), palette.bold()),
            (format!("groups {}", self.groups), Style::new()),
            (format!("processes {}", self.processes), Style::new()),
        ]
        .into_iter()
        .unzip();
        let shown = text::count_fitting(&texts, "  ", width);
        let spans = texts.into_iter().zip(styles).take(shown);
        let with_space = |(text, style)| [Span::styled(text, style), Span::raw("  ")];
        spans.flat_map(with_space).collect::<Vec<_>>().into()
    }

    /// The limit and how it is used.
    fn bar(&self, width: usize, palette: Palette) -> Line<'static> {
        let charge = Size(self.charge).short();
        let label = match self.max {
            u64::MAX => format!("] {charge}, no limit"),
            max => format!("] {charge} of {}", Size(max).short()),
        };
        let cells = width.saturating_sub(1 + label.len());
        let styles = [palette.resident(), palette.pool(), palette.other(), palette.free()];
        let layers = [RESIDENT, POOL, OTHER, FREE]
            .into_iter()
            .zip(self.layers(cells))
            .zip(styles);
        let layer =
            |((sign, cells), style): ((char, usize), Style)| Span::styled(sign.to_string().repeat(cells), style);
        let mut spans = vec![Span::raw("[")];
        spans.extend(layers.map(layer));
        spans.push(Span::raw(label));
        spans.into()
    }

    /// How many of the cells are resident, of the pool, of others, free.
    fn layers(&self, cells: usize) -> [usize; 4] {
        let whole = match self.max {
            u64::MAX => self.charge,
            max => max.max(self.charge),
        };
        let cell = |bytes: u64| {
            let share = bytes as f64 / whole.max(1) as f64;
            ((share * cells as f64).round() as usize).min(cells)
        };
        let ends = [self.resident, self.resident + self.pool, self.charge].map(cell);
        let [resident, pool, _] = ends;
        let charge = ends[2].max(pool);
        [resident, pool - resident, charge - pool, cells - charge]
    }
}

#[cfg(test)]
mod test {
    use super::super::rows::branches;
    use super::super::rows::test::{group, process};
    use super::*;

    fn totals() -> Totals {
        let groups = [group("web", 64, &[process(7, "a", 3)]), group("db", 32, &[])];
        Totals::of(&branches(&[], &groups, 1.0))
    }

    #[test]
    fn all_groups_are_summed_up() {
        let lines = totals().lines(120, Palette::new(true)).map(|line| line.to_string());
        assert_eq!(
            lines[0].trim_end(),
            "|resident 72.0M  #pool 19.2M  +other 4.80M  disk 12.0M  ratio 2.50  saved 48.0M  groups 2  processes 1"
        );
        assert!(
            lines[1].ends_with("..] 96.0M of 192M") && lines[1].starts_with("[||"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[1].len(), 120);
    }

    #[test]
    fn as_much_is_told_as_fits() {
        let first = |width| totals().lines(width, Palette::new(true))[0].to_string();
        assert!(first(80).trim_end().ends_with("saved 48.0M"));
        assert_eq!(first(40).trim_end(), "|resident 72.0M  #pool 19.2M");
        assert!(totals().lines(0, Palette::new(true))[1].width() > 0);
    }

    #[test]
    fn a_bar_has_the_shares_of_the_limit() {
        assert_eq!(totals().layers(100), [38, 9, 3, 50]);
        let of = |charge, max, resident, pool| Totals {
            charge,
            max,
            resident,
            pool,
            ..Totals::default()
        };
        assert_eq!(of(50, u64::MAX, 40, 10).layers(10), [8, 2, 0, 0]);
        // It is never more than full, whatever was read at different moments.
        assert_eq!(of(120, 100, 200, 10).layers(10), [10, 0, 0, 0]);
        assert_eq!(of(10, 100, 50, 10).layers(10), [5, 1, 0, 4]);
        assert_eq!(of(0, 0, 0, 0).layers(10), [0, 0, 0, 10]);
        let unlimited = of(50 << 20, u64::MAX, 40 << 20, 0).lines(40, Palette::new(false));
        assert!(unlimited[1].to_string().ends_with("] 50.0M, no limit"));
    }
}
