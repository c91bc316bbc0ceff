//! What is compared: rows, each a name and the options of `uzswap run` that make it.

/// One way to run the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Rows of one block are printed as one table.
    pub(crate) block: String,
    /// Within a block, rows of one family are compared with the first of them.
    pub(crate) family: String,
    /// What tells it from the others of its family.
    pub(crate) name: String,
    /// What it adds to `uzswap run`.
    pub(crate) options: Vec<String>,
}

impl Row {
    /// Block, family and name.
    pub(crate) fn full_name(&self) -> String {
        format!("{}, {}, {}", self.block, self.family, self.name)
    }
}

/// Folio sizes by compressors by batches.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for folio in ["4K", "64K", "2M"] {
        for compressor in ["lz4", "zstd", "deflate"] {
            for batch in ["1", "8"] {
                let options = ["--folio-max", folio, "--compressor", compressor, "--batch", batch];
                rows.push(Row {
                    block: format!("{folio} folios"),
                    family: compressor.to_owned(),
                    name: format!("batch {batch}"),
                    options: options.map(str::to_owned).to_vec(),
                });
            }
        }
    }
    rows
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn no_two_rows_have_a_name() {
        let rows = all();
        let names: std::collections::BTreeSet<String> = rows.iter().map(Row::full_name).collect();
        assert_eq!((rows.len(), names.len()), (18, 18));
        assert!(names.contains("64K folios, zstd, batch 8"));
    }
}
