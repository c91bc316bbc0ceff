//! Locks that are held for a few words: whoever finds one taken looks again.

#[cfg(loom)]
pub(super) use checked::{Guard, Lock};
#[cfg(not(loom))]
pub(super) use spin::{Guard, Lock};

#[cfg(not(loom))]
mod spin {
    use core::sync::atomic::{AtomicU64, Ordering};

    pub(crate) struct Lock(AtomicU64);

    /// Who has it. Ends with the value.
    pub(crate) struct Guard<'a>(&'a AtomicU64);

    impl Lock {
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }

        pub(crate) fn lock(&self) -> Guard<'_> {
            // Acquire: what the last holder did is seen (pairs with `drop`).
            while self.0.swap(1, Ordering::Acquire) != 0 {
                core::hint::spin_loop();
            }
            Guard(&self.0)
        }
    }

    impl Drop for Guard<'_> {
        fn drop(&mut self) {
            self.0.store(0, Ordering::Release);
        }
    }
}

/// To the model checker, which follows whoever looks again for ever: a lock that it knows.
#[cfg(loom)]
mod checked {
    pub(crate) struct Lock(loom::sync::Mutex<()>);

    pub(crate) type Guard<'a> = loom::sync::MutexGuard<'a, ()>;

    impl Lock {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Mutex::new(()))
        }

        pub(crate) fn lock(&self) -> Guard<'_> {
            self.0.lock().unwrap()
        }
    }
}
