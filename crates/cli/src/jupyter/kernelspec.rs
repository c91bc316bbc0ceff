//! A kernelspec: how Jupyter starts a kernel.

use std::path::{Path, PathBuf};
use std::{env, fs};

use serde_json::{Map, Value, json};

use super::places::{self, SPEC};
use crate::Failure;

/// In the metadata of a kernelspec of ours: what it was made of.
const MARK: &str = "uzswap";
/// Jupyter puts the directory of the kernelspec in its place.
const RESOURCES: &str = "{resource_dir}";
const IPYKERNEL: &str = "ipykernel";

/// What its file has.
pub(super) struct Kernelspec {
    directory: PathBuf,
    fields: Map<String, Value>,
    argv: Vec<String>,
}

impl Kernelspec {
    /// Read that of a directory.
    ///
    /// # Errors
    /// It cannot be read, or is none: the file and the rule.
    pub(super) fn read(directory: PathBuf) -> Result<Self, Failure> {
        let path = directory.join(SPEC);
        let rule = |rule: String| Failure::new(format!("{}: {rule}", path.display()));
        let text = fs::read_to_string(&path).map_err(|e| Failure::of(&path, &e))?;
        let fields: Map<String, Value> =
            serde_json::from_str(&text).map_err(|e| rule(format!("not a JSON object: {e}")))?;
        let argv = fields.get("argv").and_then(words).filter(|argv| !argv.is_empty());
        let argv = argv.ok_or_else(|| rule("argv must be a list of words, the command of the kernel".to_owned()))?;
        Ok(Self {
            directory,
            fields,
            argv,
        })
    }

    /// Whether `uzswap jupyter install` wrote it.
    pub(super) fn is_ours(&self) -> bool {
        self.fields
            .get("metadata")
            .is_some_and(|metadata| !metadata[MARK].is_null())
    }

    pub(super) fn name(&self) -> String {
        let name = self.directory.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The same kernel, started by this executable.
    ///
    /// # Errors
    /// The executable cannot be named.
    pub(super) fn under_uzswap(&self, memory_max: &str) -> Result<Map<String, Value>, Failure> {
        let launcher = [&executable()?, "run", "--memory-max", memory_max, "--"].map(str::to_owned);
        let argv = [&launcher[..], &self.command()].concat();
        let title = self.fields.get("display_name").and_then(Value::as_str);
        let title = title.map_or_else(|| self.name(), str::to_owned);
        let title = format!("{title} (uzswap {memory_max})");
        let mut fields = self.fields.clone();
        fields.insert("argv".to_owned(), json!(argv));
        fields.insert("display_name".to_owned(), json!(title));
        if self.takes_messages() {
            fields.entry("interrupt_mode").or_insert_with(|| json!("message"));
        }
        fields.insert("metadata".to_owned(), Value::Object(self.marked_metadata()));
        Ok(fields)
    }

    /// Its metadata, with what the new kernelspec was made of.
    fn marked_metadata(&self) -> Map<String, Value> {
        let metadata = self.fields.get("metadata").and_then(Value::as_object);
        let mut metadata = metadata.cloned().unwrap_or_default();
        metadata.insert(MARK.to_owned(), json!({ "from": self.directory.to_string_lossy() }));
        metadata
    }

    /// Its command, for whoever is not Jupyter. That has its own Python in place of a bare name of
    /// it, and the directory of the new kernelspec.
    fn command(&self) -> Vec<String> {
        let directory = self.directory.to_string_lossy();
        let own = places::prefix(&self.directory).map(|prefix| prefix.join("bin").join(&self.argv[0]));
        let own = own.filter(|path| !self.argv[0].contains('/') && path.is_file());
        let program = own.map_or_else(|| self.argv[0].clone(), |path| path.to_string_lossy().into_owned());
        [program]
            .iter()
            .chain(&self.argv[1..])
            .map(|word| word.replace(RESOURCES, &directory))
            .collect()
    }

    /// Whether it is interrupted by a message as well as by a signal. Jupyter sends a signal to the
    /// process group of launcher and kernel, and the launcher passes it on: the kernel would get it
    /// twice.
    fn takes_messages(&self) -> bool {
        self.argv.iter().any(|word| word.starts_with(IPYKERNEL))
    }

    /// Write `fields` into `directory`, beside copies of the kernel's pictures.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, fields: Map<String, Value>, directory: &Path) -> Result<(), Failure> {
        fs::create_dir_all(directory).map_err(|e| Failure::of(directory, &e))?;
        for file in self.resources()? {
            let copy = directory.join(file.file_name().unwrap_or_default());
            fs::copy(&file, &copy).map_err(|e| Failure::of(&copy, &e))?;
        }
        let (path, new) = (directory.join(SPEC), directory.join(format!(".{SPEC}.new")));
        fs::write(&new, format!("{:#}\n", Value::Object(fields)))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|e| {
                let _ = fs::remove_file(&new);
                Failure::of(&path, &e)
            })
    }

    /// The files beside its own.
    fn resources(&self) -> Result<Vec<PathBuf>, Failure> {
        let entries = fs::read_dir(&self.directory).map_err(|e| Failure::of(&self.directory, &e))?;
        let files = entries.flatten().map(|entry| entry.path());
        Ok(files.filter(|path| path.is_file() && !path.ends_with(SPEC)).collect())
    }
}

/// A list of words.
fn words(value: &Value) -> Option<Vec<String>> {
    let words = value.as_array()?.iter();
    words.map(|word| word.as_str().map(str::to_owned)).collect()
}

fn executable() -> Result<String, Failure> {
    let path = env::current_exe().map_err(|e| Failure::new(format!("finding this executable: {e}")))?;
    let name = path.to_str().map(str::to_owned);
    name.ok_or_else(|| Failure::new(format!("{}: JSON takes UTF-8 alone", path.display())))
}
