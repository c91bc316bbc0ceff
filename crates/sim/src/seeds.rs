//! What the seeds published of usemem: 30 processes of 10 GiB below 150 GiB, each table a column
//! before and one after.

/// Figures of one column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Total throughput, KB/s.
    pub(crate) throughput: f64,
    pub(crate) elapsed_s: f64,
    pub(crate) system_s: f64,
    pub(crate) zswpout: f64,
}

const fn column(throughput: f64, elapsed_s: f64, system_s: f64, zswpout: f64) -> Column {
    Column {
        throughput,
        elapsed_s,
        system_s,
        zswpout,
    }
}

/// A compressor's two columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) before: Column,
    pub(crate) after: Column,
}

/// What was published for one size of folios.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// log2 of a folio's pages.
    pub(crate) order: u32,
    pub(crate) zstd: Pair,
    pub(crate) iaa: Pair,
}

/// Batching, v12 (seed 001).
pub(crate) const V12_64K: Test = Test {
    name: "v12-64k",
    title: "seed 001, batching v12, usemem with 64K folios",
    order: 4,
    zstd: Pair {
        before: column(6_258_312.0, 100.01, 2505.14, 49_491_137.0),
        after: column(6_269_511.0, 100.50, 2490.00, 49_693_220.0),
    },
    iaa: Pair {
        before: column(7_191_949.0, 93.21, 2190.52, 61_577_440.0),
        after: column(10_702_115.0, 69.98, 1651.51, 71_448_317.0),
    },
};

/// As [`V12_64K`], with 2M folios.
pub(crate) const V12_2M: Test = Test {
    name: "v12-2m",
    title: "seed 001, batching v12, usemem with 2M folios",
    order: 9,
    zstd: Pair {
        before: column(6_796_376.0, 94.07, 2261.67, 48_846_660.0),
        after: column(6_865_781.0, 88.80, 2082.91, 48_000_106.0),
    },
    iaa: Pair {
        before: column(7_237_676.0, 82.26, 1901.90, 63_470_927.0),
        after: column(11_228_928.0, 69.30, 1634.78, 71_773_688.0),
    },
};

/// Batching, v9 (seed 000).
pub(crate) const V9_64K: Test = Test {
    name: "v9-64k",
    title: "seed 000, batching v9, usemem with 64K folios",
    order: 4,
    zstd: Pair {
        before: column(6_574_380.0, 96.58, 2416.52, 48_771_672.0),
        after: column(6_632_230.0, 90.60, 2224.78, 48_806_988.0),
    },
    iaa: Pair {
        before: column(6_091_607.0, 100.46, 2416.97, 58_146_954.0),
        after: column(10_174_344.0, 69.70, 1648.37, 64_508_450.0),
    },
};

/// As [`V9_64K`], with 2M folios.
pub(crate) const V9_2M: Test = Test {
    name: "v9-2m",
    title: "seed 000, batching v9, usemem with 2M folios",
    order: 9,
    zstd: Pair {
        before: column(7_320_278.0, 83.30, 1970.89, 48_043_615.0),
        after: column(7_428_055.0, 81.60, 1857.70, 47_896_223.0),
    },
    iaa: Pair {
        before: column(6_371_048.0, 87.15, 2011.56, 59_815_486.0),
        after: column(11_282_935.0, 63.04, 1450.45, 64_509_928.0),
    },
};

/// Folios stored whole, v8 (seed 004): before is "case 1", where they are split.
pub(crate) const V8_64K: Test = Test {
    name: "whole-64k",
    title: "seed 004, folios of 64K stored whole, against split",
    order: 4,
    zstd: Pair {
        before: column(5_222_213.0, 120.50, 2930.33, 48_931_583.0),
        after: column(6_227_367.0, 109.21, 2609.22, 48_931_271.0),
    },
    iaa: Pair {
        before: column(5_652_608.0, 102.90, 2246.86, 61_163_423.0),
        after: column(6_315_000.0, 91.11, 1939.31, 57_317_607.0),
    },
};

/// As [`V8_64K`], with 2M folios.
pub(crate) const V8_2M: Test = Test {
    name: "whole-2m",
    title: "seed 004, folios of 2M stored whole, against split",
    order: 9,
    zstd: Pair {
        before: column(5_895_500.0, 108.77, 2657.14, 48_931_499.0),
        after: column(6_460_111.0, 105.92, 2436.24, 48_869_236.0),
    },
    iaa: Pair {
        before: column(6_286_587.0, 96.19, 2141.44, 61_312_794.0),
        after: column(7_569_560.0, 81.96, 1768.41, 57_083_119.0),
    },
};
