//! How long a descriptor is on its engine in virtual time.
//!
//! Neither the data sheet nor the seeds publish a latency per page. All numbers here are assumed,
//! so that times on this clock are a model's. A simulation that is calibrated replaces them.

use crate::descriptor::opcode;

/// Time on an engine: a fixed part and a part for each uncompressed byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Nanoseconds from the queue to the record.
    pub fixed_ns: u64,
    /// Uncompressed bytes in a microsecond.
    pub bytes_per_us: u64,
}

impl Cost {
    /// Nanoseconds for `bytes`.
    pub fn ns(&self, bytes: usize) -> u64 {
        self.fixed_ns + (bytes as u64 * 1000).div_ceil(self.bytes_per_us.max(1))
    }
}

/// The costs of all operations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Latency {
    /// COMPRESS. Source: assumed.
    pub compress: Cost,
    /// DECOMPRESS. Source: assumed.
    pub decompress: Cost,
    /// MEMMOVE and CRC64. Source: assumed.
    pub copy: Cost,
    /// NOOP, DRAIN and all that is refused. Source: assumed.
    pub nothing: Cost,
}

impl Default for Latency {
    fn default() -> Self {
        let cost = |fixed_ns, bytes_per_us| Cost { fixed_ns, bytes_per_us };
        Self {
            compress: cost(1500, 2000),
            decompress: cost(1000, 4000),
            copy: cost(700, 16000),
            nothing: cost(500, 1_000_000),
        }
    }
}

impl Latency {
    /// Nanoseconds on an engine for an operation that went through `bytes` uncompressed bytes.
    pub fn ns(&self, code: u8, bytes: usize) -> u64 {
        let cost = match code {
            _ if bytes == 0 => &self.nothing,
            opcode::COMPRESS => &self.compress,
            opcode::DECOMPRESS => &self.decompress,
            opcode::MEMMOVE | opcode::CRC64 => &self.copy,
            _ => &self.nothing,
        };
        cost.ns(bytes)
    }
}
