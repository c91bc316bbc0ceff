//! `uzswap doctor`: what this machine allows, and the fix for each thing that is missing.

use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::uffd::{FEATURE_EVENT_FORK, FEATURE_EVENTS_MM, FEATURE_MOVE, FEATURE_POISON, FEATURE_WP, Uffd};
use uzswap_sys::{Errno, closed};

use crate::choices::{Backend, Faults, Guard};
use crate::output::print;
use crate::{Failure, agent, describe, run};

/// One thing to look at: what it is, whether it is there, and what to do if not.
struct Check {
    what: &'static str,
    result: Result<String, String>,
    is_needed: bool,
}

/// What the machine allows of userfaultfd, each looked at only if what it needs is there.
struct Userfaultfd {
    opens: Result<(), Errno>,
    moves: Result<(), Errno>,
    maps: Result<(), Errno>,
    forks: Result<(), Errno>,
}

impl Userfaultfd {
    /// `copies`: pages are not to be moved, even if they can be.
    fn look(copies: bool) -> Self {
        let open = |features| Uffd::open(features).map(drop);
        let opens = open(0);
        let unless_closed = |features| opens.and_then(|()| open(features));
        let moves = unless_closed(FEATURE_MOVE | FEATURE_POISON);
        let way = match moves.is_err() || copies {
            false => FEATURE_MOVE | FEATURE_POISON,
            true => FEATURE_WP,
        };
        Self {
            opens,
            moves,
            maps: unless_closed(FEATURE_EVENTS_MM),
            forks: unless_closed(way | FEATURE_EVENTS_MM | FEATURE_EVENT_FORK),
        }
    }

    /// All that is needed, and the fix for what is missing.
    fn needed(&self) -> Result<(), String> {
        self.opens.map_err(|errno| unopened(errno, is_root()))?;
        self.maps.and(self.forks).map_err(|errno| lacking(errno, is_root()))
    }
}

fn is_root() -> bool {
    uzswap_sys::thread::effective_user() == 0
}

/// userfaultfd cannot be opened at all.
fn unopened(errno: Errno, is_root: bool) -> String {
    match errno {
        Errno::NOENT | Errno::NXIO => {
            "no /dev/userfaultfd: it takes Linux 6.1 and CONFIG_USERFAULTFD=y; in a container pass --device /dev/userfaultfd".into()
        }
        Errno::ACCESS if is_root => {
            "/dev/userfaultfd may not be opened, even by this root: it lacks CAP_DAC_OVERRIDE and does not own it; a udev rule outside can \
             open it to a group of this root's, never to everybody (docs/installing.md)"
                .into()
        }
        Errno::ACCESS => {
            "/dev/userfaultfd is not yours to open: a udev rule of root's can open it to a group, never to everybody (docs/installing.md)"
                .into()
        }
        Errno::PERM => {
            "/dev/userfaultfd is there, but the container may not use it: pass --device /dev/userfaultfd".into()
        }
        errno => format!("/dev/userfaultfd: {}", describe(errno)),
    }
}

/// userfaultfd can be opened, but not with all that is needed.
fn lacking(errno: Errno, is_root: bool) -> String {
    match errno {
        Errno::PERM if is_root => {
            "fork events need CAP_SYS_PTRACE, which this root has not: in a container pass --cap-add SYS_PTRACE".into()
        }
        Errno::PERM => "fork events need CAP_SYS_PTRACE: run as root, or with the capability as an ambient one (setpriv --inh-caps \
                        +sys_ptrace --ambient-caps +sys_ptrace, systemd's AmbientCapabilities)"
            .into(),
        Errno::INVAL => "this kernel's userfaultfd lacks a feature: Linux 5.7 or later has all of them".into(),
        errno => format!("userfaultfd: {}", describe(errno)),
    }
}

fn proc_files() -> Result<String, String> {
    let look = || ProcSelf::open()?.vma_at_or_after(0);
    let fix = |errno| match errno {
        Errno::NOENT => format!("/proc: {}; mount it: mount -t proc proc /proc", describe(errno)),
        Errno::ACCESS | Errno::PERM => format!(
            "/proc/self: {}; it must let a process look at its own maps and pagemap",
            describe(errno)
        ),
        errno => format!("/proc/self: {}", describe(errno)),
    };
    look().map(|_| "ok".to_owned()).map_err(fix)
}

fn first_line(path: &str) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.lines().next().unwrap_or_default().trim().to_owned())
}

/// Nothing of this stands in the way, but it changes what one sees.
fn surroundings() -> Vec<Check> {
    let note = |what, result| Check {
        what,
        result,
        is_needed: false,
    };
    let zswap = match first_line("/sys/module/zswap/parameters/enabled").as_deref() {
        Some("Y") => Err("the kernel's own zswap is on: it may compress our pool again; echo N > /sys/module/zswap/parameters/enabled".into()),
        _ => Ok("off".into()),
    };
    let thp = first_line("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let thp = match thp.contains("[always]") {
        true => Err("transparent huge pages are always on: reclaim has to split them; madvise is better here".into()),
        false => Ok(thp),
    };
    let swap = match run::default_swap_directory() {
        Some(dir) => Ok(format!("swap files go to {}", dir.display())),
        None => Err(
            "none: neither TMPDIR nor /var/tmp is on a disk and can be written; set TMPDIR, or use --swap DIRECTORY"
                .into(),
        ),
    };
    vec![
        note("kernel zswap", zswap),
        note("huge pages", thp),
        note("swap directory", swap),
    ]
}

fn needed() -> Vec<Check> {
    let need = |what, result| Check {
        what,
        result,
        is_needed: true,
    };
    let found = Userfaultfd::look(false);
    let ok = || "ok".to_owned();
    let open = found.opens.map(|()| ok()).map_err(|errno| unopened(errno, is_root()));
    let mut checks = vec![need("userfaultfd", open)];
    if found.opens.is_ok() {
        let moves = found.moves.map(|()| ok()).map_err(|errno| match errno {
            Errno::INVAL => {
                "Linux 6.8 or later has it; pages are copied instead, which is slower, and direct I/O is not safe"
                    .to_owned()
            }
            errno => format!("{}; pages are copied instead", describe(errno)),
        });
        checks.push(Check {
            what: "UFFDIO_MOVE",
            result: moves,
            is_needed: false,
        });
        let events = |result: Result<(), Errno>| result.map(|()| ok()).map_err(|errno| lacking(errno, is_root()));
        checks.push(need("mapping events", events(found.maps)));
        checks.push(need("fork events", events(found.forks)));
    }
    // Any user may be managed another way: then none of that is needed.
    let guarded = guarded();
    let must_close = guarded.is_err_and(can_do_without) && found.needed().is_err();
    let is_closing = must_close && closing().is_ok();
    let may_block = found.moves.and(found.maps).is_ok();
    let calls = match guarded {
        Ok(()) if may_block => Ok("io_uring and AIO as well, for which memory comes back once".to_owned()),
        Err(errno) if !is_closing => Err(lacking_for_user(errno)),
        _ => Ok("any user, without a privilege; io_uring and AIO are refused".to_owned()),
    };
    let faults = match (&calls, is_closing) {
        (Ok(_), true) => {
            Some("mprotect and a signal, as userfaultfd is forbidden, or cannot move pages: each costs more")
        }
        (Ok(_), false) => Some("the thread that raises one serves it"),
        (Err(_), _) if found.needed().is_ok() => Some("a thread of the pager's serves them"),
        (Err(_), _) => None,
    };
    checks.iter_mut().for_each(|check| check.is_needed &= calls.is_err());
    if calls.is_ok() || found.needed().is_err() {
        checks.push(need("guarded calls", calls));
    }
    checks.extend(faults.map(|how| need("faults", Ok(how.to_owned()))));
    checks.push(need("/proc", proc_files()));
    let dir = agent::runtime_dir().map_err(|Failure(line)| line);
    checks.push(need("agent directory", dir.map(|dir| dir.display().to_string())));
    checks
}

/// What any user may have: faults of the program alone, its system calls being guarded.
fn guarded() -> Result<(), Errno> {
    Uffd::open_for_user(FEATURE_MOVE | FEATURE_POISON | FEATURE_EVENTS_MM).map(drop)
}

/// Whether system calls can be guarded here, and pages moved.
fn can_guard() -> bool {
    guarded().is_ok()
}

/// Whether there is no userfaultfd at all, for a filter of system calls.
fn is_filtered(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::NOSYS | Errno::ACCESS)
}

fn lacking_for_user(errno: Errno) -> String {
    match errno {
        errno if is_filtered(errno) => {
            "a filter of system calls forbids userfaultfd: in a container pass --security-opt seccomp=unconfined, or a profile that \
             allows it"
                .into()
        }
        Errno::INVAL => "--backend uffd: an ordinary user needs Linux 6.8 or later, as older kernels cannot move pages (UFFDIO_MOVE)".into(),
        errno => format!("userfaultfd: {}", describe(errno)),
    }
}

/// Whether it can be done without: a filter forbids it, or Linux before 6.8 cannot move pages.
fn can_do_without(errno: Errno) -> bool {
    is_filtered(errno) || errno == Errno::INVAL
}

/// Whether memory can be managed without a userfaultfd.
fn closing() -> Result<(), String> {
    closed::probe().map_err(|errno| {
        format!(
            "/proc/self/mem: {}; it must let a process write to its own memory (proc_mem.force_override), on Linux 5.14 or later",
            describe(errno)
        )
    })
}

/// How programs are managed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Way {
    /// System calls are seen before the kernel.
    pub(crate) is_guarded: bool,
    /// There is no userfaultfd: pages that are out are closed. Only with that.
    pub(crate) closes: bool,
    /// The kernel could wait for pages. Only with that.
    pub(crate) may_block: bool,
    /// It would tell of forks as well, so that no call need be seen. Only with that.
    pub(crate) may_go_unguarded: bool,
}

/// Refuse early and clearly what every process of the group would stumble over. `copies`: pages are
/// not to be moved.
pub(crate) fn check_machine(copies: bool, (guard, faults): (Guard, Faults), backend: Backend) -> Result<Way, Failure> {
    let blocks = Userfaultfd::look(copies);
    let open = || blocks.needed().map(|()| Way::default());
    let closes = Way {
        is_guarded: true,
        closes: true,
        ..Way::default()
    };
    let close = || closing().map(|()| closes);
    let guards = Way {
        is_guarded: true,
        may_block: blocks.moves.and(blocks.maps).is_ok(),
        may_go_unguarded: blocks.needed().is_ok(),
        ..Way::default()
    };
    let guarded = || match guarded() {
        Ok(()) => Ok(guards),
        Err(errno) if can_do_without(errno) && backend == Backend::Auto => close(),
        Err(errno) => Err(lacking_for_user(errno)),
    };
    let found = match (backend, guard) {
        (Backend::Mprotect, Guard::Off) => {
            Err("--backend mprotect: system calls have to be guarded: leave --guard off out".into())
        }
        (_, Guard::On) | (Backend::Mprotect, _) if copies => {
            Err("--isolate copy needs a kernel that waits for pages: it goes with --guard off".into())
        }
        (Backend::Mprotect, _) => close(),
        (_, Guard::Off) => open(),
        (_, Guard::On) => guarded(),
        (_, Guard::Auto) if copies => open(),
        // Whoever has a choice is slower without the guard.
        (_, Guard::Auto) if faults != Faults::Thread && can_guard() => guarded(),
        (_, Guard::Auto) => open().or_else(|_| guarded()),
    };
    let way = found.and_then(|way| proc_files().map(|_| way));
    way.map_err(|fix| Failure::new(format!("{fix} (`uzswap doctor` shows everything)")))
}

/// Print the findings. Status 1 when something that is needed is missing.
pub(crate) fn doctor() -> Result<u8, Failure> {
    let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut text = format!("Linux {release}\n");
    let mut is_ready = true;
    for check in needed().into_iter().chain(surroundings()) {
        let (word, what) = match check.result {
            Ok(what) => ("ok", what),
            Err(fix) if check.is_needed => {
                is_ready = false;
                ("MISSING", fix)
            }
            Err(fix) => ("note", fix),
        };
        text += &format!("  {word:<8} {:<16} {what}\n", check.what);
    }
    text += match is_ready {
        true => "Programs can be managed here.\n",
        false => "Programs cannot be managed here yet.\n",
    };
    print(&text)?;
    Ok(u8::from(!is_ready))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn root_is_not_told_to_be_root() {
        for errno in [Errno::PERM, Errno::ACCESS] {
            assert!(!unopened(errno, true).contains("as root") && !lacking(errno, true).contains("run as root"));
        }
        assert!(lacking(Errno::PERM, true).contains("SYS_PTRACE"));
    }

    /// Whoever has it can make the kernel wait.
    #[test]
    fn nobody_is_told_to_open_it_to_everybody() {
        for is_root in [false, true] {
            let fix = unopened(Errno::ACCESS, is_root);
            assert!(!fix.contains("666") && fix.contains("docs/installing.md"), "{fix}");
        }
    }

    #[test]
    fn few_descriptors_are_called_that() {
        assert!(unopened(Errno::MFILE, false).contains("ulimit -n"));
    }
}
