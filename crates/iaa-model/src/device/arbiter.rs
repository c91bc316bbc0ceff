//! Which engine takes which descriptor.
//!
//! Priorities are weights: each descriptor moves its queue's pass on by one over the priority, and
//! the queue whose pass is least comes next. Engines that compress look last, so that other work
//! leaves them free. Within a queue an engine takes the first descriptor that it can run. Nothing
//! in the data sheet says that a compression blocks those behind it.

use super::queue::{Entry, Queue};
use super::{Device, Job, QueueState};
use crate::check::Rules;
use crate::descriptor::{Descriptor, opcode};

/// What one descriptor adds to the pass of a queue of priority 1.
const STRIDE: u64 = 1 << 20;

impl Device {
    /// A queue was empty: its share starts where the others of its group are, so that it cannot
    /// save up for a burst.
    pub(super) fn join(&mut self, at: usize, group: Option<u8>) {
        let others = self.queues.iter().enumerate();
        let least = others
            .filter(|(i, queue)| *i != at && queue.config.group == group && !queue.waiting.is_empty())
            .map(|(_, queue)| queue.pass)
            .min();
        let queue = &mut self.queues[at];
        queue.pass = queue.pass.max(least.unwrap_or(0));
    }

    /// The next descriptor that some engine takes, if there are both.
    pub fn next_job(&mut self) -> Option<Job> {
        let (engine, queue, place) = self.match_up()?;
        Some(self.take(engine, queue, place))
    }

    /// Whether some engine could take a descriptor.
    pub fn has_job(&self) -> bool {
        self.match_up().is_some()
    }

    fn match_up(&self) -> Option<(usize, usize, usize)> {
        if !self.is_running() || self.queues.iter().all(|queue| queue.waiting.is_empty()) {
            return None;
        }
        let engines = 0..self.engines.len();
        let of_kind = |compresses| {
            engines
                .clone()
                .filter(move |i| self.engines[*i].compresses == compresses)
        };
        let mut idle = of_kind(false)
            .chain(of_kind(true))
            .filter(|i| !self.engines[*i].is_busy);
        idle.find_map(|engine| {
            let (queue, place) = self.choice(engine)?;
            Some((engine, queue, place))
        })
    }

    /// The queue, and the place in it, that `engine` takes from.
    fn choice(&self, engine: usize) -> Option<(usize, usize)> {
        let group = self.engines[engine].group?;
        let queues = self.queues.iter().enumerate();
        queues
            .filter(|(_, queue)| queue.config.group == Some(group) && queue.state != QueueState::Off)
            .filter_map(|(i, queue)| Some((queue.pass, i, self.runnable(queue, engine)?)))
            .min()
            .map(|(_, queue, place)| (queue, place))
    }

    fn runnable(&self, queue: &Queue, engine: usize) -> Option<usize> {
        let compresses = self.engines[engine].compresses || !self.group_compresses(queue);
        let can_run = |(place, entry): &(usize, &Entry)| match entry.raw[7] {
            opcode::COMPRESS => compresses,
            opcode::DRAIN => {
                let earlier = queue.in_flight.keys().next();
                *place == 0 && earlier.is_none_or(|sequence| *sequence > entry.sequence)
            }
            _ => true,
        };
        queue.waiting.iter().enumerate().find(can_run).map(|(place, _)| place)
    }

    fn group_compresses(&self, queue: &Queue) -> bool {
        let mut engines = self.engines.iter();
        engines.any(|engine| engine.group == queue.config.group && engine.compresses)
    }

    fn take(&mut self, engine: usize, at: usize, place: usize) -> Job {
        let compresses = self.group_compresses(&self.queues[at]);
        let life = self.life();
        let queue = &mut self.queues[at];
        let entry = queue.waiting.remove(place).expect("the place was found");
        queue.pass += STRIDE / u64::from(queue.config.priority.max(1));
        queue.in_flight.insert(entry.sequence, entry.clone());
        self.engines[engine].is_busy = true;
        let mut op_config = queue.config.op_config;
        if !compresses {
            op_config.remove(opcode::COMPRESS);
        }
        let rules = Rules {
            caps: self.caps.clone(),
            op_config,
            block_on_fault: queue.config.block_on_fault,
            max_transfer: 1 << queue.config.max_transfer_shift,
            dedicated: queue.config.mode == super::Mode::Dedicated,
        };
        Job {
            device: self.id,
            life,
            queue: at as u8,
            queue_epoch: queue.epoch,
            engine: engine as u8,
            descriptor: Descriptor::decode(&entry.raw),
            entry,
            rules,
        }
    }
}
