//! `uzswap jupyter`: kernels that run under `uzswap run`, in Jupyter's list of kernels.

mod kernelspec;
pub(crate) mod options;
mod places;

use std::path::Path;

use crate::Failure;
use crate::output::say;
use kernelspec::Kernelspec;
use options::{InstallOptions, NAME_PREFIX, RemoveOptions, Verb};

/// `uzswap jupyter`
pub(crate) fn jupyter(verb: &Verb) -> Result<u8, Failure> {
    match verb {
        Verb::Install(options) => install(options),
        Verb::Remove(options) => remove(options),
    }
}

fn install(options: &InstallOptions) -> Result<u8, Failure> {
    let target = places::target(&options.place)?;
    let source = places::find(&options.from, &places::all(&target))?;
    let spec = Kernelspec::read(source)?;
    if spec.is_ours() {
        return Err(Failure::new(format!(
            "--from {}: it runs under uzswap already: name the kernel that it was made of",
            options.from
        )));
    }
    let name = options.name.clone();
    let name = name.unwrap_or_else(|| format!("{NAME_PREFIX}{}", spec.name().to_lowercase()));
    let directory = target.join(&name);
    check_free(&directory)?;
    spec.write(spec.under_uzswap(&options.memory_max)?, &directory)?;
    say!("{name}: {}", directory.join(places::SPEC).display());
    Ok(0)
}

/// Whether a kernelspec may be written there: nobody else's is lost.
fn check_free(directory: &Path) -> Result<(), Failure> {
    match directory.join(places::SPEC).exists() {
        true => check_ours(directory),
        false => Ok(()),
    }
}

fn check_ours(directory: &Path) -> Result<(), Failure> {
    match Kernelspec::read(directory.to_owned())?.is_ours() {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "{}: `uzswap jupyter install` did not write it: choose another name, or remove it by `jupyter kernelspec remove`",
            directory.display()
        ))),
    }
}

fn remove(options: &RemoveOptions) -> Result<u8, Failure> {
    let target = places::target(&options.place)?;
    let directory = target.join(&options.name);
    if !directory.join(places::SPEC).exists() {
        let known = places::known(std::slice::from_ref(&target), "there is none");
        return Err(Failure::new(format!(
            "{}: no such kernel in {}: {known}; --prefix names another place",
            options.name,
            target.display()
        )));
    }
    check_ours(&directory)?;
    std::fs::remove_dir_all(&directory).map_err(|e| Failure::of(&directory, &e))?;
    Ok(0)
}
