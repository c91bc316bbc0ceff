//! A driver for Intel's In-Memory Analytics Accelerator (IAA) in user space.
//!
//! It is of use without uzswap: it knows pages, streams and work queues, and nothing of swap. It
//! has no unsafe code and makes no system calls. Who embeds it implements the traits through which
//! it reaches files, portals and memory.
//!
//! ```text
//!  topology --work queues--> queue --> table --> driver <-- settings
//!     ^ Sysfs                  ^ Portal            |  ^ Buffers
//!   sysfs, /dev/iax        ENQCMD, MOVDIR64B,      |  resident memory
//!                          write                   v
//!  requests --> batch --> recipe --> descriptor --> device --> completion --> outcome
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`descriptor`] | the 64 bytes that ask for a job |
//! | [`completion`] | the 64 bytes that answer, and what they mean for a page |
//! | [`aecs`] | Huffman tables that go with a job, and the header that canned mode keeps aside |
//! | [`recipe`] | the jobs of a compressor, as descriptors |
//! | [`topology`] | devices, work queues and cores, from sysfs |
//! | [`portal`] | the door of a work queue, and the credits of a dedicated one |
//! | [`queue`] | a work queue in use |
//! | [`table`] | which queues a core submits to; swapped as a whole |
//! | [`buffers`] | memory that the device reads and writes |
//! | [`resident`] | the same, as words that two share |
//! | [`slab`] | descriptor slots |
//! | [`driver`] | what all batches share |
//! | [`batch`] | pages submitted at once, polled, collected |
//! | [`settings`], [`outcome`], [`statistics`] | what goes in and comes out |
//!
//! # Promises
//! - [`batch::Batch::submit`] and [`batch::Batch::poll`] never wait, and allocate nothing.
//! - Each page has one outcome, after six deadlines at the latest. Pages that the device does not
//!   do are software's; the embedder has the codec.
//! - No slot, buffer or credit is used again while the device may still answer for it.
//! - A compression that was verified reads back with the checksum that it had.
//!
//! # Streams
//! Fixed and dynamic streams are raw deflate, which any inflater reads. The device reads raw
//! deflate whose distances are at most 4096. So software that writes what the device is to read
//! must keep to a window of 4 KiB. Canned streams lack their header, which [`aecs::Header::stream`]
//! puts in front of them.
//!
//! # Sources
//! All layouts were read in public sources, never copied. "Data sheet" in these comments is
//! `reference/iaa.md` beside the repository; A1 to A14 are its sections. Nothing was tried on
//! hardware.
//!
//! # Example
//! A machine without a device, in memory that no device reads: software does the page.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use uzswap_iaa::batch::Batch;
//! use uzswap_iaa::buffers::{Area, Buffers, Pair};
//! use uzswap_iaa::completion::Direction;
//! use uzswap_iaa::driver::{Driver, Request};
//! use uzswap_iaa::outcome::{Outcome, Why};
//! use uzswap_iaa::settings::Settings;
//! use uzswap_iaa::table::Table;
//!
//! /// Slots of 8 KiB, four areas of eight of them.
//! struct Memory(Mutex<Vec<u8>>);
//!
//! const SLOT: usize = 8192;
//!
//! impl Buffers for Memory {
//!     fn address(&self, area: Area, slot: u32) -> u64 {
//!         ((area as usize * 8 + slot as usize) * SLOT) as u64
//!     }
//!
//!     fn read(&self, area: Area, slot: u32, offset: usize, bytes: &mut [u8]) {
//!         let at = self.address(area, slot) as usize + offset;
//!         bytes.copy_from_slice(&self.0.lock().unwrap()[at..at + bytes.len()]);
//!     }
//!
//!     fn write(&self, area: Area, slot: u32, offset: usize, bytes: &[u8]) {
//!         let at = self.address(area, slot) as usize + offset;
//!         self.0.lock().unwrap()[at..at + bytes.len()].copy_from_slice(bytes);
//!     }
//!
//!     fn status(&self, slot: u32) -> u8 {
//!         self.0.lock().unwrap()[self.address(Area::Record, slot) as usize]
//!     }
//!
//!     fn touch(&self, _address: u64, _write: bool) -> bool {
//!         false
//!     }
//! }
//!
//! let memory = Memory(Mutex::new(vec![0; 32 * SLOT]));
//! let driver: Driver<parking_lot::RawMutex, _> =
//!     Driver::new(Settings::default(), memory, 8, Table::default()).unwrap();
//! let driver = Arc::new(driver);
//! let mut batch = Batch::new(driver.clone(), 1);
//! let buffers = Pair { source: 0, destination: 1 };
//! driver.buffers().write(Area::Buffer, buffers.source, 0, &[7; 4096]);
//! let request = Request { buffers, length: 4096, room: 4095 };
//! batch.submit(Direction::Compress, 0, &[request], 0).unwrap();
//! while batch.poll(0) != 0 {}
//! batch.collect(|_, outcome| assert_eq!(outcome, Outcome::Software(Why::NoQueue)));
//! assert_eq!(driver.snapshot().flaw(), None);
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aecs;
pub mod batch;
mod bits;
pub mod buffers;
pub mod completion;
pub mod descriptor;
pub mod driver;
pub mod outcome;
pub mod portal;
mod quarantine;
pub mod queue;
pub mod recipe;
pub mod resident;
pub mod settings;
pub mod slab;
pub mod statistics;
pub mod table;
pub mod topology;
