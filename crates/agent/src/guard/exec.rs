//! Before a process becomes another program: one that loads no library gets us from the launcher,
//! and so does one whose environment does not name us any more.

use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::{Group, Tunable};
use uzswap_guard::table::BY_NUMBER;
use uzswap_sys::executable::{self, Kind};
use uzswap_sys::guard::Call;
use uzswap_sys::{ask, creds, thread};

use super::{environment, release, see_to};
use crate::cpu::vigil::VIGIL;
use crate::fault::inline;
use crate::pager;

/// All filters of system calls that there were as the program began are the launcher's, as in a
/// container: what the launcher is asked by passes them.
static HAS_LAUNCHERS_FILTERS: AtomicBool = AtomicBool::new(false);

/// In the constructor: see whose filters there are.
pub(crate) fn look_at_filters(group: Group) {
    let launchers = group.get(Tunable::Filters).checked_sub(1);
    // Where it has none, one that there is is the program's.
    let are_launchers = launchers > Some(0) && creds::filters_of_calls() == launchers;
    HAS_LAUNCHERS_FILTERS.store(are_launchers, Ordering::Relaxed);
}

/// Whether a filter of the program's, inherited perhaps, decides what calls there are.
pub(crate) fn is_filtered() -> bool {
    inline::is_filtered() || thread::is_filtered() && !HAS_LAUNCHERS_FILTERS.load(Ordering::Relaxed)
}

pub(crate) const SYS_EXECVE: usize = 59;
const SYS_EXECVEAT: usize = 322;
pub(super) const CALLS: [usize; 2] = [SYS_EXECVE, SYS_EXECVEAT];
/// Of the working directory.
const HERE: usize = -100isize as usize;
/// Which word of a call has the number of the descriptor that was asked with, and one more.
const ASKED: usize = 1;
/// Bytes of a socket's name, and the zero behind it.
const NAME: usize = 108;

/// Before one. Whatever goes wrong here, the call is made: what is not managed is charged.
///
/// Nothing is allocated: a child of vfork that is killed in here has its parent's memory.
pub(super) fn before(call: &mut Call) {
    call.spare[ASKED] = 0;
    let Some(row) = BY_NUMBER[call.number] else { return };
    let [first, second, third, fourth, fifth, _] = call.args;
    let (dir, path, env, flags) = match call.number {
        SYS_EXECVE => (HERE, first, third, 0),
        _ => (first, second, fourth, fifth),
    };
    let (token, _) = see_to(row, &call.args, 0, true);
    let asked = Asked::before([dir, path, flags], env);
    release(token);
    call.spare[ASKED] = asked.map_or(0, |asked| asked.0 as usize + 1);
}

/// It has failed.
pub(super) fn after(call: &mut Call) {
    if let Some(number) = core::mem::take(&mut call.spare[ASKED]).checked_sub(1) {
        Asked(number as i32).take_back();
    }
}

/// The launcher traces this thread until it is another program: a descriptor.
pub(crate) struct Asked(i32);

impl Asked {
    /// Before an execve(2) of `path`.
    pub(crate) fn before_execve(path: usize, env: usize) -> Option<Self> {
        Self::before([HERE, path, 0], env)
    }

    /// Before an execveat(2) of `[dir, path, flags]`. This process's other threads end before that,
    /// so the vigil is recalled, whoever is asked.
    fn before([dir, path, flags]: [usize; 3], env: usize) -> Option<Self> {
        let kind = || executable::kind_of(dir, core::ptr::with_exposed_provenance(path), flags);
        let guards_it = || inline::is_on() || pager::group().is_some_and(|it| it.is_on(Tunable::InlineFaults));
        let lacks_us = || match guards_it() {
            // Only the guard sees what a program does that loads nothing.
            true => match kind() {
                Ok(Kind::LoadsNothing) => true,
                kind => kind == Ok(Kind::Loads) && environment::lacks_us(env),
            },
            // The file is opened last: who closes it lets go of locks that the program has on it.
            false => environment::lacks_us(env) && kind() == Ok(Kind::Loads),
        };
        let is_filtered = is_filtered();
        if pager::active().is_some() && !is_filtered {
            VIGIL.recall();
        }
        let lacks_us = !is_filtered && lacks_us();
        let mut name = [0; NAME];
        let keeper = lacks_us.then(|| keeper(&mut name)).flatten()?;
        ask::ask_to_trace(keeper).ok().flatten().map(Self)
    }

    /// It has failed: whoever traces us is to do so no more.
    pub(crate) fn take_back(self) {
        ask::take_back(self.0);
    }
}

/// The name of the launcher's socket.
fn keeper(name: &mut [u8; NAME]) -> Option<&CStr> {
    let path = pager::group_path()?.to_bytes();
    let stem = path.strip_suffix(uzswap_ctl::GROUP_SUFFIX).unwrap_or(path);
    let parts = stem.iter().chain(uzswap_ctl::KEEPER_SUFFIX);
    name.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
    CStr::from_bytes_until_nul(name).ok()
}
