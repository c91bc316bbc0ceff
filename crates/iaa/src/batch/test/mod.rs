//! Batches on scripted devices.

mod chaos;
mod errors;
mod fake;
mod late;
mod memory;
mod verify;
mod waiting;
mod works;

use super::*;
use crate::queue::test::work_queue;
use crate::settings::Settings;
use crate::topology::Mode;
use alloc::vec;
use fake::{Plan, TestBatch};

const COMPRESS: Direction = Direction::Compress;
const DECOMPRESS: Direction = Direction::Decompress;
/// The deadline of the default settings, in nanoseconds.
const DEADLINE: u64 = 5_000_000;

/// One dedicated queue.
fn dedicated(settings: Settings) -> Plan {
    Plan {
        settings,
        queues: vec![work_queue(1, 0, Mode::Dedicated)],
        ..Plan::default()
    }
}

fn unverified() -> Settings {
    Plan::default().settings
}

/// The outcome of the first page.
fn first(batch: &mut TestBatch) -> Outcome {
    let mut outcomes = Vec::new();
    batch.collect(|_, outcome| outcomes.push(outcome));
    outcomes[0]
}
