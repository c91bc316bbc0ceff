//! A place where any user may run the launcher.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{compile, temp};

/// What runs longer has hung.
pub const PATIENCE_S: &str = "300";

/// A copy of the launcher, and a directory, that any user can get at.
pub struct Place(pub PathBuf);

impl Place {
    /// One of this name.
    pub fn new(name: &str) -> Self {
        let dir = temp(name);
        fs::create_dir_all(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("ours");
        fs::copy(env!("CARGO_BIN_EXE_uzswap"), dir.join("uzswap")).expect("copying the launcher");
        Self(dir)
    }

    /// A program of the tests' in it, which any user can run: its path.
    pub fn program(&self, name: &str) -> String {
        let (compiled, program) = (compile(name), self.0.join(name));
        fs::copy(&compiled, &program).expect("copying it");
        fs::remove_file(compiled).expect("compiled above");
        program.to_str().expect("a path of ASCII").to_owned()
    }

    /// A command as a user without any privilege, if we are root; else as we are.
    pub fn unprivileged(&self, program: &Path) -> Command {
        self.command(Who::Nobody, program)
    }

    fn command(&self, who: Who, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", PATIENCE_S]);
        if who == Who::Nobody && is_root() {
            command.args(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]);
            command.args(["--bounding-set", "-all", "--inh-caps", "-all"]);
        }
        command
            .arg(program)
            .env("TMPDIR", &self.0)
            .env("HOME", &self.0)
            .current_dir(&self.0);
        command
    }

    /// Run it under the launcher.
    pub fn run(&self, options: &[&str], cmd: &[&str]) -> Output {
        self.run_as(Who::Nobody, options, cmd)
    }

    fn run_as(&self, who: Who, options: &[&str], cmd: &[&str]) -> Output {
        let mut command = self.command(who, &self.0.join("uzswap"));
        command.args(["run", "--quiet"]).args(options).arg("--").args(cmd);
        command.output().expect("starting uzswap")
    }

    /// The same output and status as without a pager.
    pub fn is_as_unmanaged(&self, options: &[&str], cmd: &[&str]) {
        self.is_as_unmanaged_for(Who::Nobody, options, cmd);
    }

    /// The same, for either.
    pub fn is_as_unmanaged_for(&self, who: Who, options: &[&str], cmd: &[&str]) {
        let mut twin = self.command(who, Path::new(cmd[0]));
        let twin = twin.args(&cmd[1..]).output().expect("starting it");
        let managed = self.run_as(who, options, cmd);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            text(&managed.stdout),
            text(&twin.stdout),
            "{cmd:?}: {}",
            text(&managed.stderr)
        );
        assert_eq!(text(&managed.stderr), text(&twin.stderr), "{cmd:?}");
        assert_eq!(managed.status, twin.status, "{cmd:?}");
    }
}

/// Who runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// A user without any privilege, if we are root; else as we are.
    Nobody,
    AsWeAre,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Whether this is root.
pub fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0)
}

/// Whether any user may have what the guard needs here.
pub fn can_guard() -> bool {
    let features = uzswap_sys::uffd::FEATURE_MOVE | uzswap_sys::uffd::FEATURE_POISON;
    let can = uzswap_sys::uffd::Uffd::open_for_user(features).is_ok();
    if !can {
        eprintln!("skipped: no userfaultfd that moves pages for ordinary users here");
    }
    can
}
