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

/// Folio sizes by compressors by batches, one of them spread over the cores; and by ways out.
pub(crate) fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    for folio in ["4K", "64K", "2M"] {
        let mut add = |family: &str, name: &str, options: &[&str]| {
            // Pages that come to rest would be compressed again while the others are measured.
            let always = ["--folio-max", folio, "--recompress", "none"];
            let options = always.iter().chain(options);
            rows.push(Row {
                block: format!("{folio} folios"),
                family: family.to_owned(),
                name: name.to_owned(),
                options: options.map(|option| (*option).to_owned()).collect(),
            });
        };
        for compressor in ["lz4", "words", "zstd", "deflate"] {
            for batch in ["1", "8"] {
                let options = ["--compressor", compressor, "--batch", batch];
                add(compressor, &format!("batch {batch}"), &options);
            }
            let parallel = format!("{compressor}-parallel");
            add(compressor, "parallel", &["--compressor", &parallel]);
        }
        // The first pages are stored without: a dictionary is made of them.
        add("zstd", "dictionary", &["--compressor", "zstd-dict", "--batch", "8"]);
        for way in ["split", "whole", "direct"] {
            add("swapout", way, &["--swapout", way]);
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
        assert_eq!((rows.len(), names.len()), (48, 48));
        assert!(names.contains("64K folios, zstd, batch 8"));
        assert!(names.contains("2M folios, zstd, dictionary"));
    }
}
