//! Intel IAA (IAX) devices, modelled at the level of descriptors and registers.
//!
//! A driver sees what it would see of the hardware. It submits descriptors at a portal, and finds
//! completion records and AECS in its memory. Beside them stand MMIO registers, a character device
//! and sysfs. The engines do real work: what they compress any inflater reads. [`fault`] makes
//! everything go wrong on demand.
//!
//! | module | what it is |
//! |---|---|
//! | [`memory`] | what devices reach: a trait, and made-up regions for tests |
//! | [`descriptor`], [`completion`], [`status`], [`aecs`] | layouts and codes |
//! | [`checksum`] | CRC-32, CRC-32C, XOR, CRC64 |
//! | [`device`] | queues, groups, engines, registers, commands, event log |
//! | [`machine`] | devices, the kernel's part, processes, and a clock |
//! | [`latency`] | how long things take in virtual time |
//! | [`fault`] | injected faults, by script or at random |
//! | [`sysfs`] | the tree that a driver's discovery reads |
//! | [`options`] | a model by a line of text |
//!
//! # Example
//! ```
//! use std::sync::Arc;
//! use uzswap_iaa_model::machine::{Config, Machine, Process};
//! use uzswap_iaa_model::memory::Regions;
//!
//! let memory = Arc::new(Regions::new());
//! memory.map(0x1000, 4096);
//! let machine = Machine::inline(Config::default(), memory.clone());
//! let file = machine.open(Process(1), machine.devices()[0], 0).unwrap();
//! let mut noop = [0; 64];
//! noop[4] = 0x0c; // the completion address is valid, a record is wanted
//! noop[9] = 0x10; // at 0x1000
//! file.map(Process(1)).unwrap().enqcmd(&noop);
//! assert_eq!(memory.load(0x1000, 1), [1]);
//! ```
//!
//! # Documented and assumed
//! The model is written from public sources alone, as a data sheet of this project collects them;
//! nothing was compared with hardware. Documented are the layouts of descriptors, records,
//! registers and compress AECS, opcodes, flags, status and error codes, limits, and what processes
//! may do. Assumed, since no source tells, are:
//!
//! * the order of checks, and which flags are illegal for which opcode;
//! * invalid_flags (a mask of the illegal bits) and the operand numbers of fault_info;
//! * 0 in output_bits means that all eight bits of the last byte count;
//! * bits that are no whole byte stay in the AECS unless the output is flushed;
//! * a compression that does not fit leaves a prefix, and output_size says how long it is;
//! * seeds of the CRC go on as zlib's do, and the XOR's words begin anew with each descriptor;
//! * a CRC64 polynomial is written most significant bit first, whatever the bit order;
//! * decompression stops before a token that does not fit;
//! * repetitions in a block header do not cross from one code to the other (errors 4 and 6), which
//!   RFC 1951 allows: [`machine::Config::runs_cross`] does, too;
//! * a cut header is error 1 where no AECS is written, and waits in the AECS where one is;
//! * an AECS that is too short or no AECS at all is error 22;
//! * a stored block ends as if it had an end-of-block symbol;
//! * without STOP a decompression goes on after the final block: what follows is a header;
//! * an AECS that is written has its second copy behind the first, toggled or not;
//! * the private 248 bytes of a decompress AECS, and `num_codes` over all symbols;
//! * a work queue's entry is free as soon as an engine has its descriptor;
//! * which engine takes which descriptor, beyond that priorities are weights;
//! * a portal without a device or with a queue that is off swallows descriptors, ENQCMD included;
//! * a group without an engine that compresses answers a compression with status 10;
//! * most results of commands, and that their operand is a queue's number;
//! * the header of an event log's entry, and SWERR's code for a lost descriptor;
//! * every latency.
//!
//! Left out are filters and all other analytics opcodes, encryption, TRANSL_FETCH, big-endian
//! words, indexing, dictionaries, interrupt handles, traffic classes and performance monitors.
//! The model's `op_cap`, `gen_cap` and `iaa_cap` do not claim them. A descriptor that asks for one
//! is refused with the status that the data sheet has for it.
//!
//! **Everything measured on this model is the model's.** Real time is this processor's. Virtual
//! time is a table of assumptions. Compressed sizes are those of a simple match finder.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod aecs;
mod bits;
mod check;
pub mod checksum;
pub mod completion;
mod compress;
mod decompress;
pub mod descriptor;
pub mod device;
pub mod fault;
mod huffman;
pub mod latency;
pub mod machine;
pub mod memory;
mod operation;
pub mod options;
pub mod random;
pub mod status;
mod symbols;
pub mod sysfs;
