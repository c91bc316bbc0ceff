//! A value that is set once, or replaced at rare moments, and read without a lock.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A pointer to a leaked value. Replacing leaks the old one too: readers may hold it for ever.
pub struct Leaked<T>(AtomicPtr<T>, PhantomData<T>);

// SAFETY: it hands out `&'static T` to any thread, which T: Sync allows, and takes values from any,
// which Send does.
unsafe impl<T: Send + Sync> Sync for Leaked<T> {}

impl<T> Leaked<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()), PhantomData)
    }

    /// The value, if one was set.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: either null or from Box::leak in `set`, never freed. Acquire pairs with the
        // Release there.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value; what `make` makes, if none was set: that of the thread that comes first.
    pub fn get_or_set(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let value = Box::into_raw(Box::new(make()));
        let none = core::ptr::null_mut();
        match self
            .0
            .compare_exchange(none, value, Ordering::AcqRel, Ordering::Acquire)
        {
            // SAFETY: from Box::into_raw, never freed from now on.
            Ok(_) => unsafe { &*value },
            // SAFETY: ours was seen by nobody; the other is never freed.
            Err(there) => unsafe {
                drop(Box::from_raw(value));
                &*there
            },
        }
    }

    /// Nothing again. Whoever has the value keeps it.
    pub fn clear(&self) {
        self.0.store(core::ptr::null_mut(), Ordering::Release);
    }

    /// Set or replace the value.
    pub fn set(&self, value: T) -> &'static T {
        let value = Box::leak(Box::new(value));
        self.0.store(value, Ordering::Release);
        value
    }
}

impl<T> Default for Leaked<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod test {
    extern crate std;

    use super::*;

    #[test]
    fn the_first_of_two_stays() {
        static CELL: Leaked<u64> = Leaked::new();
        assert_eq!((*CELL.get_or_set(|| 1), *CELL.get_or_set(|| 2)), (1, 1));
    }

    #[test]
    fn readers_see_whole_values_while_they_are_replaced() {
        static CELL: Leaked<[u64; 2]> = Leaked::new();
        assert!(CELL.get().is_none());
        let first = CELL.set([0, !0]);
        std::thread::scope(|scope| {
            scope.spawn(|| (1..50).for_each(|i| assert_eq!(*CELL.set([i, !i]), [i, !i])));
            for _ in 0..50 {
                let [a, b] = *CELL.get().unwrap();
                assert_eq!(a, !b);
            }
        });
        assert_eq!((*first, CELL.get()), ([0, !0], Some(&[49, !49])));
        CELL.clear();
        assert_eq!((*first, CELL.get()), ([0, !0], None));
    }
}
