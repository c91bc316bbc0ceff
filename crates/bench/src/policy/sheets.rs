//! The tables, for programs.

use serde_json::{Value, json};
use uzswap_mm::Tunables;

use super::baseline::BASELINES;
use super::{Row, Trace};
use crate::export::Sheet;

/// Of misses, in percent of the touches that are not the first of their page; no row yet.
pub(super) fn misses() -> Sheet {
    let before = [
        "trace",
        "pages",
        "touches",
        "memory_percent",
        "policy",
        "uzswap",
        "second_chances",
        "no_neighbours",
    ];
    let baselines = BASELINES.iter().map(|baseline| baseline.name);
    Sheet::new("misses, percent", before.into_iter().chain(baselines))
}

impl Row {
    pub(super) fn values(&self, trace: &Trace) -> impl Iterator<Item = Value> {
        let before = [
            json!(trace.name),
            json!(trace.pages()),
            json!(trace.touches().len()),
            json!(self.percent),
            json!(self.order.name()),
        ];
        let shares = self.counts().map(|touches| json!(super::share(trace, touches)));
        before.into_iter().chain(shares)
    }
}

/// What the engine decides by.
pub(super) fn tunables(tunables: &Tunables) -> Sheet {
    let mut sheet = Sheet::new("tunables", ["constant", "value", "unit", "is_fixed"]);
    for one in tunables.iter() {
        sheet.row([json!(one.name), json!(one.value), json!(one.unit), json!(one.is_fixed)]);
    }
    sheet
}
