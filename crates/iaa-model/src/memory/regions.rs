//! Memory for tests: regions of made-up addresses, whose pages fault as a test tells them to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Access, Memory, PageFault};

const PAGE: u64 = 4096;

/// Which accesses of a page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// None.
    Present,
    /// Every access, for ever: no page request brings the page.
    Absent,
    /// Every write, for ever.
    ReadOnly,
    /// Every access until [`Regions::touch`] or a page request has brought the page.
    UntilTouched,
}

/// By number.
type Pages = BTreeMap<u64, (Protection, Box<[u8; PAGE as usize]>)>;

/// Pages at made-up addresses. All that is not mapped faults.
#[derive(Default)]
pub struct Regions(Mutex<Pages>);

impl Regions {
    /// No page at all.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Zeroed pages for `[addr, addr + len)`, widened to whole pages of 4 KiB.
    pub fn map(&self, addr: u64, len: usize) {
        let mut pages = self.lock();
        for page in addr / PAGE..(addr + len as u64).div_ceil(PAGE) {
            pages.insert(page, (Protection::Present, Box::new([0; PAGE as usize])));
        }
    }

    /// Change how the mapped pages of `[addr, addr + len)` fault.
    pub fn protect(&self, addr: u64, len: usize, protection: Protection) {
        let pages = addr / PAGE..(addr + len as u64).div_ceil(PAGE);
        self.lock().range_mut(pages).for_each(|(_, page)| page.0 = protection);
    }

    /// Touch a byte as the program would: a page that waits for it is there now.
    pub fn touch(&self, addr: u64) {
        if let Some(page) = self.lock().get_mut(&(addr / PAGE))
            && page.0 == Protection::UntilTouched
        {
            page.0 = Protection::Present;
        }
    }

    /// Bytes as the program sees them: protections hold for devices only.
    ///
    /// # Panics
    /// When the bytes are not mapped.
    pub fn load(&self, addr: u64, len: usize) -> Vec<u8> {
        let mut into = vec![0; len];
        let loaded = self.walk(addr, len, None, |bytes, done| {
            into[done..done + bytes.len()].copy_from_slice(bytes);
        });
        loaded.expect("mapped");
        into
    }

    /// Change bytes as the program would.
    ///
    /// # Panics
    /// When the bytes are not mapped.
    pub fn store(&self, addr: u64, from: &[u8]) {
        let stored = self.walk(addr, from.len(), None, |bytes, done| {
            let len = bytes.len();
            bytes.copy_from_slice(&from[done..done + len]);
        });
        stored.expect("mapped");
    }

    /// Walk `[addr, addr + len)` page by page until one forbids a device's `access`; `None`: the
    /// program's own, which nothing forbids.
    fn walk(
        &self,
        addr: u64,
        len: usize,
        access: Option<Access>,
        mut step: impl FnMut(&mut [u8], usize),
    ) -> Result<(), PageFault> {
        let mut pages = self.lock();
        let mut done = 0;
        while done < len {
            let at = addr.wrapping_add(done as u64);
            let fault = PageFault {
                addr: at,
                access: access.unwrap_or(Access::Read),
            };
            let (protection, bytes) = pages.get_mut(&(at / PAGE)).ok_or(fault)?;
            let forbidden = match access {
                None => false,
                Some(Access::Read) => !matches!(protection, Protection::Present | Protection::ReadOnly),
                Some(Access::Write) => *protection != Protection::Present,
            };
            if forbidden {
                return Err(fault);
            }
            let from = (at % PAGE) as usize;
            let to = bytes.len().min(from + len - done);
            step(&mut bytes[from..to], done);
            done += to - from;
        }
        Ok(())
    }
}

impl Memory for Regions {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), PageFault> {
        self.walk(addr, into.len(), Some(Access::Read), |bytes, done| {
            into[done..done + bytes.len()].copy_from_slice(bytes);
        })
    }

    fn write(&self, addr: u64, from: &[u8]) -> Result<(), PageFault> {
        self.walk(addr, from.len(), Some(Access::Write), |bytes, done| {
            let len = bytes.len();
            bytes.copy_from_slice(&from[done..done + len]);
        })
    }

    /// The lock orders this store behind those before it, and before a load of [`Regions::load`].
    fn publish(&self, addr: u64, byte: u8) {
        self.store(addr, &[byte]);
    }

    fn page_request(&self, fault: PageFault) -> bool {
        match self.lock().get_mut(&(fault.addr / PAGE)) {
            Some(page) if page.0 == Protection::UntilTouched => {
                page.0 = Protection::Present;
                true
            }
            _ => false,
        }
    }
}
