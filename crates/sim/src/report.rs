//! What a simulation is reported as: tables of published and simulated figures, and tables of what
//! nobody published.

/// Where a simulated figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A cost was chosen so that it comes out as published.
    Calibrated,
    /// Nothing was chosen by it.
    Predicted,
    /// As predicted, but costs of this very test were chosen by other figures of the column.
    Given,
}

impl Kind {
    /// The word that readers see.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calibrated => "calibrated",
            Self::Predicted => "predicted",
            Self::Given => "given",
        }
    }
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Thousands of bytes a second.
    KbPerSecond,
    /// Seconds.
    Seconds,
    /// Pages, folios and the like.
    Count,
    /// Percent: differences are percentage points.
    Percent,
}

/// A published figure and its simulation.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is.
    pub label: String,
    /// Its unit.
    pub unit: Unit,
    /// As published.
    pub published: f64,
    /// As simulated.
    pub simulated: f64,
    /// Where the latter comes from.
    pub kind: Kind,
}

impl Row {
    /// In percentage points where both are percent, else in percent of what was published.
    pub fn difference(&self) -> f64 {
        match self.unit {
            Unit::Percent => self.simulated - self.published,
            _ => change(self.published, self.simulated),
        }
    }

    /// A predicted improvement: what the simulation stands or falls by.
    pub fn is_judged(&self) -> bool {
        self.unit == Unit::Percent && self.kind == Kind::Predicted
    }

    /// Whether it is no farther than [`BAR`] from what was published.
    pub fn is_met(&self) -> bool {
        self.difference().abs() <= BAR
    }
}

/// Percentage points that a predicted improvement may be off.
pub const BAR: f64 = 10.0;

/// From `before` to `after`, in percent.
pub(crate) fn change(before: f64, after: f64) -> f64 {
    if before == 0.0 {
        0.0
    } else {
        (after / before - 1.0) * 100.0
    }
}

/// Series of points over one axis.
#[derive(Clone, Debug, Default)]
pub struct Plot {
    /// What is along the axis.
    pub x: String,
    /// What is above it.
    pub y: String,
    /// Each with its name and points, from left to right.
    pub series: Vec<(String, Vec<(f64, f64)>)>,
}

/// What is below a heading.
#[derive(Clone, Debug)]
pub enum Body {
    /// Published beside simulated.
    Published(Vec<Row>),
    /// Rows of cells below a head.
    Open {
        /// Names of the columns.
        head: Vec<String>,
        /// The rows.
        rows: Vec<Vec<String>>,
        /// The same, drawn.
        plot: Plot,
    },
}

/// One table.
#[derive(Clone, Debug)]
pub struct Section {
    /// The name that `--only` takes.
    pub name: &'static str,
    /// The heading.
    pub title: String,
    /// What has to be known to read it.
    pub notes: Vec<String>,
    /// The figures.
    pub body: Body,
}

impl Section {
    /// Predicted improvements, and how many of them are within the bar.
    pub fn tally(&self) -> (usize, usize) {
        match &self.body {
            Body::Published(rows) => {
                let judged = || rows.iter().filter(|row| row.is_judged());
                (judged().count(), judged().filter(|row| row.is_met()).count())
            }
            Body::Open { .. } => (0, 0),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn differences_are_points_of_percentages_and_parts_of_all_else() {
        let row = |unit, published, simulated| Row {
            label: String::new(),
            unit,
            published,
            simulated,
            kind: Kind::Predicted,
        };
        assert_eq!(row(Unit::Percent, 49.0, 40.0).difference(), -9.0);
        assert_eq!(row(Unit::Seconds, 50.0, 40.0).difference().round(), -20.0);
        assert!(row(Unit::Percent, 49.0, 40.0).is_met() && !row(Unit::Percent, 49.0, 38.0).is_met());
        assert!(!row(Unit::Seconds, 50.0, 40.0).is_judged());
    }
}
