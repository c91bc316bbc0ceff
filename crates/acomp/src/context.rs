//! One worker's working memory for one algorithm, and its way to the device that is faster.

use crate::software::Software;
use crate::{Algorithm, Batch, Counts, Device, Error, NoDevice, Request};

/// One worker's working memory for one algorithm, and a device that does the same, if there is
/// one.
pub struct Context<D = NoDevice> {
    pub(crate) software: Software,
    pub(crate) device: Option<D>,
    pub(crate) counts: Counts,
    /// The device has pages of a request.
    pub(crate) is_under_way: bool,
}

impl Context {
    /// Working memory for `algorithm`, which this processor runs.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with_device(algorithm, None)
    }
}

impl<D: Device> Context<D> {
    /// Working memory for `algorithm`, and a device whose fallback it is.
    ///
    /// # Panics
    /// They do not read each other's blocks.
    pub fn with_device(algorithm: Algorithm, device: Option<D>) -> Self {
        if let Some(device) = &device {
            assert_eq!(device.codec(), algorithm.codec(), "{algorithm} is not its fallback");
        }
        Self {
            software: Software::new(algorithm),
            device,
            counts: Counts::default(),
            is_under_way: false,
        }
    }

    /// Go on with another device, and return the one before: in a forked child, whose parent's it
    /// is. What was under way there is none of this context's business any more, nor counted.
    ///
    /// # Panics
    /// As for [`with_device`](Self::with_device).
    pub fn replace_device(&mut self, device: Option<D>) -> Option<D> {
        let algorithm = self.algorithm();
        if let Some(device) = &device {
            assert_eq!(device.codec(), algorithm.codec(), "{algorithm} is not its fallback");
        }
        self.is_under_way = false;
        self.counts = Counts::default();
        core::mem::replace(&mut self.device, device)
    }

    /// What this context compresses with.
    pub fn algorithm(&self) -> Algorithm {
        self.software.algorithm()
    }

    /// Pages that it wants at once.
    pub fn batch_size(&self) -> usize {
        let device = self.device.as_ref().map(Device::batch_size);
        device.unwrap_or(self.algorithm().batch_size())
    }

    /// What became of the pages that its device was given.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Begin a request. The device takes its pages in, if there is one; [`Batch::poll`] collects
    /// them.
    ///
    /// # Panics
    /// The request has too many pages, or less room than they have units.
    pub fn submit<'c, 'a>(&'c mut self, request: Request<'a>) -> Batch<'c, 'a, D> {
        Batch::submit(self, request)
    }

    /// Compress one page into `out` by software and return its length there.
    ///
    /// # Errors
    /// Why it has no compressed form.
    pub fn compress_page(&mut self, page: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        self.software.compress(page, out)
    }

    /// Decompress `block` by software so that it fills `page` exactly. False: the block is damaged,
    /// `page` is undefined.
    #[must_use]
    pub fn decompress(&mut self, block: &[u8], page: &mut [u8]) -> bool {
        self.software.decompress(block, page)
    }
}
