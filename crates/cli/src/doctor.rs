//! `uzswap doctor`: what this machine allows, and the fix for each thing that is missing.

use uzswap_sys::Errno;
use uzswap_sys::procfs::ProcSelf;
use uzswap_sys::uffd::{FEATURE_EVENT_FORK, FEATURE_EVENTS_MM, FEATURE_MOVE, FEATURE_POISON, FEATURE_WP, Uffd};

use crate::{Failure, agent};

/// One thing to look at: what it is, whether it is there, and what to do if not.
struct Check {
    what: &'static str,
    result: Result<String, String>,
    is_needed: bool,
}

/// What the open of a userfaultfd tells.
fn userfaultfd(features: u64) -> Result<String, String> {
    let fix = |errno| {
        match errno {
        Errno::NOENT => "no /dev/userfaultfd: `modprobe userfaultfd` or a kernel with CONFIG_USERFAULTFD; in a container pass --device /dev/userfaultfd".into(),
        Errno::ACCESS => "/dev/userfaultfd is not yours to open: `chmod 666 /dev/userfaultfd` or a udev rule, as root".into(),
        Errno::PERM => "fork events need CAP_SYS_PTRACE: run as root, or `setcap cap_sys_ptrace+ep` on the program".into(),
        Errno::INVAL => "this kernel's userfaultfd lacks a feature: Linux 5.7 or later has all of them".into(),
        errno => format!("{errno}"),
    }
    };
    Uffd::open(features).map(|_| "ok".to_owned()).map_err(fix)
}

/// Whether pages can move; where they cannot, they are copied.
fn moves() -> bool {
    Uffd::open(FEATURE_MOVE | FEATURE_POISON).is_ok()
}

/// All that taking pages out needs, one way or the other.
fn isolation(copies: bool) -> Result<String, String> {
    let way = match copies {
        false => FEATURE_MOVE | FEATURE_POISON,
        true => FEATURE_WP,
    };
    userfaultfd(way | FEATURE_EVENTS_MM | FEATURE_EVENT_FORK)
}

fn proc_files() -> Result<String, String> {
    let look = || ProcSelf::open()?.vma_at_or_after(0);
    look()
        .map(|_| "ok".to_owned())
        .map_err(|e| format!("/proc: {e}; mount it"))
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
    let swap = match std::env::var_os("TMPDIR").or(Some("/var/tmp".into())) {
        Some(dir) => Ok(format!("swap files go to {}", dir.display())),
        None => Err("no directory for swap files: set TMPDIR".into()),
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
    vec![
        need("userfaultfd", userfaultfd(0)),
        Check {
            what: "UFFDIO_MOVE",
            result: match moves() {
                true => Ok("ok".into()),
                false => Err(
                    "Linux 6.8 or later has it; pages are copied instead, which is slower, and direct I/O is not safe"
                        .into(),
                ),
            },
            is_needed: false,
        },
        need("mapping events", userfaultfd(FEATURE_EVENTS_MM)),
        need("fork events", isolation(!moves())),
        need("/proc", proc_files()),
        need(
            "agent directory",
            agent::runtime_dir()
                .map(|dir| dir.display().to_string())
                .map_err(|Failure(line)| line),
        ),
    ]
}

/// Refuse early and clearly what every process of the group would stumble over. `copies`: pages are not to be moved.
pub(crate) fn check_machine(copies: bool) -> Result<(), Failure> {
    isolation(copies || !moves())
        .and_then(|_| proc_files())
        .map(drop)
        .map_err(|fix| Failure::new(format!("{fix} (`uzswap doctor` shows everything)")))
}

/// Print the findings. Status 1 when something that is needed is missing.
pub(crate) fn doctor() -> u8 {
    let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    println!("Linux {release}");
    let mut is_ready = true;
    for check in needed().into_iter().chain(surroundings()) {
        match check.result {
            Ok(text) => println!("  ok       {:<16} {text}", check.what),
            Err(fix) if check.is_needed => {
                is_ready = false;
                println!("  MISSING  {:<16} {fix}", check.what);
            }
            Err(fix) => println!("  note     {:<16} {fix}", check.what),
        }
    }
    println!(
        "{}",
        if is_ready {
            "Programs can be managed here."
        } else {
            "Programs cannot be managed here yet."
        }
    );
    u8::from(!is_ready)
}
