//! Whose devices: this system's, those that a directory describes, or a model's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uzswap_ctl::accel::{Accel, WORDS};
use uzswap_iaa::topology::{DEVICES, NODES, Sysfs};
use uzswap_iaa_model::machine::{Machine as Model, Real};
use uzswap_sys::OwnedFd;
use uzswap_sys::shared::SharedWords;

use super::host::Reached;
use super::options::Machine;
use crate::{Failure, describe};

/// Where the kernel's drivers are told which devices and queues are theirs.
const DRIVERS: &str = "/sys/bus/dsa/drivers";

/// Files of sysfs and `/dev`, and what is behind them.
pub(super) enum Place {
    /// Beneath this directory.
    Files(PathBuf),
    Model(Box<InModel>),
}

/// A model for one command, and memory that it reaches.
pub(super) struct InModel {
    pub(super) machine: Model<Real>,
    pub(super) file: Accel,
    _fd: OwnedFd,
}

impl Place {
    /// Of this system.
    pub(super) fn of_system() -> Self {
        Self::Files(PathBuf::from("/"))
    }

    /// That the options name.
    ///
    /// # Errors
    /// There is no memory for a model, or no such directory.
    pub(super) fn of(machine: &Machine) -> Result<Self, Failure> {
        match (&machine.iaa_model, &machine.root) {
            (Some(model), _) => {
                let (words, fd) = SharedWords::in_memory(c"uzswap-iaa", WORDS)
                    .map_err(|e| Failure::new(format!("memory for the model: {}", describe(e))))?;
                let file = Accel::create(words.words());
                Ok(Self::Model(Box::new(InModel {
                    machine: Model::inline(model.options.config(), Arc::new(Reached(file))),
                    file,
                    _fd: fd,
                })))
            }
            (None, Some(root)) if !root.is_dir() => {
                Err(Failure::new(format!("--root {}: is not a directory", root.display())))
            }
            (None, Some(root)) => Ok(Self::Files(root.clone())),
            (None, None) => Ok(Self::of_system()),
        }
    }

    /// How it is called in messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Files(root) if root == Path::new("/") => "this machine",
            Self::Files(_) => "the directory",
            Self::Model(_) => "the MODEL",
        }
    }

    fn file(root: &Path, path: &str) -> PathBuf {
        root.join(path.trim_start_matches('/'))
    }

    /// Write a file of sysfs.
    ///
    /// # Errors
    /// What the system, or the model's kernel, answers.
    pub(super) fn write(&self, path: &str, text: &str) -> Result<(), String> {
        match self {
            Self::Files(root) => std::fs::write(Self::file(root, path), text).map_err(|e| e.to_string()),
            Self::Model(model) => {
                let below = |directory: &str| path.strip_prefix(directory)?.strip_prefix('/');
                let written = match (below(DEVICES), below(DRIVERS)) {
                    (Some(path), _) => model.machine.write_attribute(path, text),
                    (None, Some("idxd/bind" | "user/bind")) => model.machine.bind(text),
                    (None, Some("idxd/unbind" | "user/unbind")) => model.machine.unbind(text),
                    _ => Err(uzswap_iaa_model::machine::Errno::NoDevice),
                };
                written.map_err(|errno| std::io::Error::from_raw_os_error(errno as i32).to_string())
            }
        }
    }

    /// The file by which a driver takes a device or a queue, or lets it go.
    pub(super) fn driver(name: &str, verb: &str) -> String {
        let driver = if name.starts_with("wq") { "user" } else { "idxd" };
        format!("{DRIVERS}/{driver}/{verb}")
    }

    /// The text of an attribute of a device, without white space around it.
    pub(super) fn attribute(&self, path: &str) -> Option<String> {
        Some(self.read(&format!("{DEVICES}/{path}"))?.trim().to_owned())
    }

    /// The names of IAA devices, by their numbers.
    pub(super) fn devices(&self) -> Vec<String> {
        let number = |name: &String| name.strip_prefix("iax").and_then(|number| number.parse::<u32>().ok());
        let mut names: Vec<String> = self.list(DEVICES);
        names.retain(|name| number(name).is_some());
        names.sort_by_key(number);
        names
    }

    /// Parts of a device of this kind: `wq` or `engine`.
    pub(super) fn parts(&self, device: &str, kind: &str) -> Vec<String> {
        let number = |name: &String| {
            let (_, number) = name.strip_prefix(kind)?.split_once('.')?;
            number.parse::<u32>().ok()
        };
        let mut names = self.list(&format!("{DEVICES}/{device}"));
        names.retain(|name| number(name).is_some());
        names.sort_by_key(number);
        names
    }
}

impl Sysfs for Place {
    fn read(&self, path: &str) -> Option<String> {
        match self {
            Self::Files(root) => std::fs::read_to_string(Self::file(root, path)).ok(),
            Self::Model(model) => {
                let path = path.strip_prefix(DEVICES)?.strip_prefix('/')?;
                model.machine.sysfs().read(path).map(str::to_owned)
            }
        }
    }

    fn list(&self, path: &str) -> Vec<String> {
        match self {
            Self::Files(root) => {
                let entries = std::fs::read_dir(Self::file(root, path)).into_iter().flatten();
                let names = entries.flatten().map(|entry| entry.file_name());
                names.filter_map(|name| name.into_string().ok()).collect()
            }
            Self::Model(model) => {
                let tree = model.machine.sysfs();
                if path == NODES {
                    let enabled = |(path, text): (&str, &str)| {
                        let (_, name) = path.strip_suffix("/state")?.split_once('/')?;
                        (text == "enabled").then(|| name.to_owned())
                    };
                    return tree.files().filter_map(enabled).collect();
                }
                let directory = path.strip_prefix(DEVICES).map(|below| below.trim_start_matches('/'));
                let names = directory.map(|directory| tree.list(directory)).unwrap_or_default();
                names.into_iter().map(str::to_owned).collect()
            }
        }
    }
}
