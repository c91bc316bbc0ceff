//! The table that holds now, and who looks at it without a lock.
//!
//! # Locking
//! One lock guards the table's reference. A [`Reader`] keeps a reference of its own and takes the
//! lock only when the version says that another table was swapped in.

use super::Table;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use lock_api::{Mutex, RawMutex};

/// The table that holds now.
pub struct Current<R> {
    version: AtomicU64,
    table: Mutex<R, Arc<Table>>,
}

impl<R: RawMutex> Current<R> {
    /// `table` holds.
    #[must_use]
    pub fn new(table: Table) -> Self {
        Self {
            version: AtomicU64::new(1),
            table: Mutex::new(Arc::new(table)),
        }
    }

    /// Swap a new table in. The old one is returned: its queues live as long as a reader, a batch
    /// or a late descriptor holds them.
    pub fn replace(&self, table: Table) -> Arc<Table> {
        let mut held = self.table.lock();
        // Release pairs with the Acquire of a reader: who sees the new version takes the lock, and
        // finds the new table there.
        self.version.fetch_add(1, Ordering::Release);
        core::mem::replace(&mut held, Arc::new(table))
    }

    /// The table that holds now, for who looks once.
    #[must_use]
    pub fn get(&self) -> Arc<Table> {
        self.table.lock().clone()
    }
}

/// One thread's view of the table.
///
/// A reader holds the table that it saw last, and so its queues. Who will not submit for long calls
/// [`Self::park`].
#[derive(Default)]
pub struct Reader {
    /// Of `table`; 0 belongs to no table.
    version: u64,
    table: Option<Arc<Table>>,
}

impl Reader {
    /// The table that holds now: one load unless it was replaced.
    pub fn get<R: RawMutex>(&mut self, current: &Current<R>) -> &Arc<Table> {
        let version = current.version.load(Ordering::Acquire);
        if version != self.version {
            self.table = None;
        }
        self.table.get_or_insert_with(|| {
            let held = current.table.lock();
            self.version = current.version.load(Ordering::Relaxed);
            held.clone()
        })
    }

    /// Whether the table that was seen last holds still.
    #[must_use]
    pub fn is_current<R: RawMutex>(&self, current: &Current<R>) -> bool {
        self.version == current.version.load(Ordering::Acquire)
    }

    /// Let go of the table, so that an idle thread keeps no old queue.
    pub fn park(&mut self) {
        self.table = None;
    }
}
