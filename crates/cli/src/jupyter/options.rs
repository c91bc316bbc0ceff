//! What `uzswap jupyter` is told.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::memory_max::{AUTO, setting_word};

/// Of the name of a new kernel; the other's is behind it.
pub(super) const NAME_PREFIX: &str = "uzswap-";

/// `uzswap jupyter`
#[derive(Args)]
pub(crate) struct JupyterCommand {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Subcommand)]
pub(crate) enum Verb {
    /// Write a kernelspec that runs another kernel under `uzswap run`
    Install(InstallOptions),
    /// Remove a kernelspec that `install` wrote
    Remove(RemoveOptions),
}

#[derive(Args)]
pub(crate) struct InstallOptions {
    /// Kernel to run: its name, or the directory of its kernel.json
    #[arg(long, value_name = "KERNEL", default_value = "python3")]
    pub(crate) from: String,
    /// Name of the new kernel [default: uzswap- and the other's name]
    #[arg(long, value_name = "NAME", value_parser = kernel_name)]
    pub(crate) name: Option<String>,
    /// Limit of each kernel, as for `uzswap run`
    #[arg(long, value_name = "SIZE|N%|auto", default_value = AUTO, allow_hyphen_values = true, value_parser = memory_max)]
    pub(crate) memory_max: String,
    #[command(flatten)]
    pub(crate) place: PlaceOptions,
}

#[derive(Args)]
pub(crate) struct RemoveOptions {
    /// Name of the kernel
    #[arg(value_parser = kernel_name, default_value_t = format!("{NAME_PREFIX}python3"))]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) place: PlaceOptions,
}

/// Where kernelspecs are written.
#[derive(Args)]
pub(crate) struct PlaceOptions {
    /// For this user, which it is without --prefix
    #[arg(long, conflicts_with = "prefix")]
    pub(crate) user: bool,
    /// Below DIR/share/jupyter: of a virtual environment, or /usr/local for all users
    #[arg(long, value_name = "DIR")]
    pub(crate) prefix: Option<PathBuf>,
}

/// A name that Jupyter takes. It looks for names in lower case.
fn kernel_name(text: &str) -> Result<String, String> {
    let may = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
    if text.is_empty() || text.starts_with('.') || !text.chars().all(may) {
        return Err(format!(
            "'{text}' is not a name of a kernel: small letters, digits, '-', '_' or '.', not '.' first"
        ));
    }
    Ok(text.to_owned())
}

/// As it is written: a percentage is of the machine that the kernel runs on. No kernel would start
/// with what is refused here.
fn memory_max(text: &str) -> Result<String, String> {
    setting_word(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_limit_is_one_that_a_kernel_starts_with() {
        for text in ["4M", "1.5G", "50%", "max", "none", "auto"] {
            assert_eq!(memory_max(text).as_deref(), Ok(text));
        }
        for text in ["1", "0", "4095K", "0%"] {
            let error = memory_max(text).unwrap_err();
            assert_eq!(error, format!("'{text}' must be at least 4M"));
        }
        assert!(memory_max("5Q").unwrap_err().contains("'5Q' is not a size"));
    }
}
