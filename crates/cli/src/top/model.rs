//! What is on the screen, as data: rows and their order, what is selected, folded and asked for.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::columns::{self, Column, Unit};
use super::history::History;
use super::look::SeenGroup;
use super::rows::{Branch, Key, Row, branches};

/// What a line is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Limit,
    Reclaim,
}

/// A line that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) verb: Verb,
    pub(super) group: String,
    pub(super) text: String,
}

/// What came of the last command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Said(String),
    Failed(String),
}

pub(super) struct Model {
    seen: Vec<SeenGroup>,
    branches: Vec<Branch>,
    histories: HashMap<String, History>,
    pub(super) sorted_by: &'static Column,
    pub(super) is_reversed: bool,
    selected: Option<Key>,
    /// Where that was, for when it has gone.
    at: usize,
    folded: HashSet<String>,
    /// Columns of the terminal.
    pub(super) width: usize,
    pub(super) has_help: bool,
    pub(super) prompt: Option<Prompt>,
    pub(super) status: Option<Status>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self {
            seen: Vec::new(),
            branches: Vec::new(),
            histories: HashMap::new(),
            sorted_by: columns::named("MEM"),
            is_reversed: false,
            selected: None,
            at: 0,
            folded: HashSet::new(),
            width: 80,
            has_help: false,
            prompt: None,
            status: None,
        }
    }

    /// What there is now; the look before was `seconds` ago.
    pub(super) fn see(&mut self, now: Vec<SeenGroup>, seconds: f64) {
        self.branches = branches(&self.seen, &now, seconds);
        self.seen = now;
        let names: HashSet<&str> = self.seen.iter().map(|group| group.name.as_str()).collect();
        self.histories.retain(|name, _| names.contains(name.as_str()));
        self.folded.retain(|name| names.contains(name.as_str()));
        for Branch { heading, .. } in &self.branches {
            let history = self.histories.entry(heading.key.group.clone()).or_default();
            history.memory.push(heading.sizes.charge);
            if let Some(rates) = heading.rates {
                history.faults.push(rates[0] as u64);
            }
        }
        self.sort();
    }

    fn sort(&mut self) {
        let (column, is_reversed) = (self.sorted_by, self.is_reversed);
        let order = |a: &Row, b: &Row| match is_reversed {
            true => order(column, b, a),
            false => order(column, a, b),
        };
        self.branches.sort_by(|a, b| order(&a.heading, &b.heading));
        for branch in &mut self.branches {
            branch.processes.sort_by(order);
        }
        self.keep_selection();
    }

    /// Its row may have moved, or have gone: then the one in its place is selected.
    fn keep_selection(&mut self) {
        let keys: Vec<Key> = self.rows().iter().map(|row| row.key.clone()).collect();
        let found = keys.iter().position(|key| self.selected.as_ref() == Some(key));
        self.at = found.unwrap_or(self.at.min(keys.len().saturating_sub(1)));
        self.selected = keys.get(self.at).cloned();
    }

    pub(super) fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// What is not folded away, from top to bottom.
    pub(super) fn rows<'a>(&'a self) -> Vec<&'a Row> {
        let shown = |branch: &'a Branch| match self.is_folded(&branch.heading.key.group) {
            true => &[][..],
            false => &branch.processes[..],
        };
        let rows = |branch: &'a Branch| std::iter::once(&branch.heading).chain(shown(branch));
        self.branches.iter().flat_map(rows).collect()
    }

    pub(super) fn is_folded(&self, group: &str) -> bool {
        self.folded.contains(group)
    }

    /// The number of the selected row.
    pub(super) fn selected(&self) -> usize {
        self.at
    }

    /// The group of the selected row.
    pub(super) fn group(&self) -> Option<&Branch> {
        let key = self.selected.as_ref()?;
        self.branches
            .iter()
            .find(|branch| branch.heading.key.group == key.group)
    }

    pub(super) fn history(&self, group: &str) -> Option<&History> {
        self.histories.get(group)
    }

    /// Select the row so many further down.
    pub(super) fn go(&mut self, rows: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.at = self.at.saturating_add_signed(rows).min(last);
        self.selected = self.rows().get(self.at).map(|row| row.key.clone());
    }

    /// Hide the processes of the selected row's group, or show them.
    pub(super) fn fold(&mut self) {
        let Some(key) = &mut self.selected else { return };
        if !self.folded.remove(&key.group) {
            self.folded.insert(key.group.clone());
            key.pid = None;
        }
        self.keep_selection();
    }

    /// Sort by the column so many further to the right, of those that are shown.
    pub(super) fn sort_by_next(&mut self, columns: isize) {
        let shown = columns::fitting(self.width);
        let is_it = |column: &&Column| column.name == self.sorted_by.name;
        let at = shown.iter().position(is_it).unwrap_or(0) as isize;
        self.sorted_by = shown[(at + columns).rem_euclid(shown.len() as isize) as usize];
        self.sort();
    }

    pub(super) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.sort();
    }

    /// Begin to ask for what is to be done to the selected row's group.
    pub(super) fn ask(&mut self, verb: Verb) {
        let group = self.group().map(|branch| branch.heading.key.group.clone());
        let prompt = |group| Prompt {
            verb,
            group,
            text: String::new(),
        };
        self.prompt = group.map(prompt);
    }
}

/// Numbers from the largest, all else from the first.
fn order(column: &Column, a: &Row, b: &Row) -> Ordering {
    let value = |row| (column.value)(row).unwrap_or(-1.0);
    let by_name = || a.label.cmp(&b.label).then(a.key.pid.cmp(&b.key.pid));
    match column.unit {
        Unit::Text => by_name(),
        Unit::Id => value(a).total_cmp(&value(b)).then_with(by_name),
        _ => value(b).total_cmp(&value(a)).then_with(by_name),
    }
}

#[cfg(test)]
pub(super) mod test {
    use super::super::rows::test::{group, process};
    use super::*;

    /// Three groups, of which `web` has two processes.
    pub(in super::super) fn model() -> Model {
        let mut model = Model::new();
        model.see(groups(), 1.0);
        model
    }

    fn groups() -> Vec<SeenGroup> {
        vec![
            group("db", 32, &[process(20, "redis-server *:6379", 32)]),
            group("web", 64, &[process(7, "python3 job.py", 3), process(8, "sh", 61)]),
            group("idle", 4, &[]),
        ]
    }

    fn labels(model: &Model) -> Vec<&str> {
        model.rows().iter().map(|row| row.label.as_str()).collect()
    }

    fn selected(model: &Model) -> &str {
        labels(model)[model.selected()]
    }

    #[test]
    fn groups_are_sorted_and_their_processes_within() {
        let mut model = model();
        let by_memory = [
            "web (2)",
            "sh",
            "python3 job.py",
            "db (1)",
            "redis-server *:6379",
            "idle (0)",
        ];
        assert_eq!(labels(&model), by_memory);
        model.reverse();
        assert_eq!(labels(&model)[..3], ["idle (0)", "db (1)", "redis-server *:6379"]);
        model.reverse();
        model.sort_by_next(-1);
        assert_eq!(model.sorted_by.name, "PID");
        assert_eq!(labels(&model)[3..], ["web (2)", "python3 job.py", "sh"]);
        model.sort_by_next(-1);
        assert_eq!(model.sorted_by.name, "COMMAND");
        assert_eq!(labels(&model)[0], "db (1)");
        let shown = columns::fitting(model.width).len() as isize;
        (0..shown).for_each(|_| model.sort_by_next(1));
        assert_eq!(model.sorted_by.name, "COMMAND");
    }

    #[test]
    fn the_selection_stays_with_its_row() {
        let mut model = model();
        model.go(1);
        assert_eq!(selected(&model), "sh");
        model.reverse();
        assert_eq!((selected(&model), model.selected()), ("sh", 5));
        model.go(-100);
        assert_eq!(selected(&model), "idle (0)");
        model.go(isize::MAX);
        assert_eq!(model.selected(), 5);
        assert_eq!(model.group().unwrap().heading.key.group, "web");
    }

    #[test]
    fn what_has_gone_leaves_the_selection_to_its_neighbour() {
        let mut model = model();
        model.go(1);
        let mut now = groups();
        now[1].processes.pop();
        model.see(now.clone(), 1.0);
        assert_eq!(selected(&model), "python3 job.py");
        now.truncate(1);
        model.see(now, 1.0);
        assert_eq!(selected(&model), "redis-server *:6379");
        assert!(model.history("web").is_none() && model.history("db").is_some());
        model.see(Vec::new(), 1.0);
        assert!(model.group().is_none() && model.rows().is_empty());
        model.go(1);
        model.fold();
        model.ask(Verb::Limit);
        assert_eq!((model.selected(), model.prompt.as_ref()), (0, None));
        model.see(groups(), 1.0);
        assert_eq!(selected(&model), "web (2)");
    }

    #[test]
    fn a_folded_group_has_its_heading_alone() {
        let mut model = model();
        model.go(2);
        model.fold();
        assert_eq!(labels(&model)[..2], ["web (2)", "db (1)"]);
        assert_eq!(selected(&model), "web (2)");
        model.see(groups(), 1.0);
        assert_eq!(labels(&model).len(), 4);
        model.fold();
        assert_eq!(labels(&model).len(), 6);
        // One of the same name, later, is another.
        model.fold();
        model.see(Vec::new(), 1.0);
        model.see(groups(), 1.0);
        assert_eq!(labels(&model).len(), 6);
    }

    #[test]
    fn a_group_has_a_history_since_it_was_first_seen() {
        let mut model = model();
        let mut now = groups();
        now[0].counts[0] = 90;
        model.see(now, 1.0);
        let history = model.history("db").unwrap();
        assert_eq!(
            (history.faults.last(9), history.memory.last(9)),
            (vec![90], vec![32 << 20; 2])
        );
    }
}
