//! The pools' locks: lock_api's, or those of the model checker.

#[cfg(not(loom))]
pub(crate) use lock_api::Mutex;

#[cfg(loom)]
pub(crate) struct Mutex<R, T> {
    inner: loom::sync::Mutex<T>,
    raw: core::marker::PhantomData<R>,
}

#[cfg(loom)]
impl<R, T> Mutex<R, T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            inner: loom::sync::Mutex::new(value),
            raw: core::marker::PhantomData,
        }
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.inner.lock().expect("a thread that panicked ended the model")
    }
}
