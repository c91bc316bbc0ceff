//! Gateways: the `syscall` instructions of our own that make the program's calls.
//!
//! ```text
//! gateway n     syscall
//!               jmp [BACKS + 16 n]
//! ```
//! Whoever unwinds the stack from there, of a thread that waits in a call, say, finds the frame of
//! the code that made the call: the jump leads to where that is noted.
//!
//! All of the program's calls are made from our code, as those of the guard are. So Syscall User
//! Dispatch can let that range of addresses pass, and stop every other call: one of code that was
//! loaded later or made at run time, or that no jump can be put into. The kernel raises SIGSYS for
//! it instead, and its thread goes on at the guard's [`entry`](crate::guard::entry_address) with a
//! gateway of its own, as if there had been a jump.
//!
//! Gateways of sites that were patched are taken in turn, before a second thread runs. Those of
//! dispatched sites are found by the site's address, and are never given back: a thread may be
//! sleeping in one.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use rustix::io::Result;

use super::instructions;
use crate::guard;
use crate::thread::syscall;

/// Bytes of a gateway, and of a word of what belongs to it.
const STRIDE: usize = 8;
/// Gateways of patched sites; of dispatched ones, a power of two.
const PATCHED: usize = 4096;
const DISPATCHED: usize = 1024;
const ALL: usize = PATCHED + DISPATCHED;

/// Where gateways lead to; and the address behind the call in the program's code.
pub(crate) static BACKS: [[AtomicUsize; 2]; ALL] = [const { [const { AtomicUsize::new(0) }; 2] }; ALL];
/// Of dispatched ones: not 0, it is known what stack its calls are made on ([`Room`]).
static ROOMS: [AtomicU8; DISPATCHED] = [const { AtomicU8::new(0) }; DISPATCHED];
/// Gateways of patched sites that are taken.
static USED: AtomicUsize = AtomicUsize::new(0);

/// # Safety
/// To be jumped to, with the registers of a system call.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn gateways() {
    naked_asm!(
        ".balign 8",
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 0",
        // The caller's rip stands behind what the jump of this gateway reads: at
        // gateway + 8 + i32[gateway + 4] + 8, where gateway is rip & -8.
        ".cfi_escape 0x10, 16, 19, 0x80, 0x00, 0x09, 0xf8, 0x1a, 0x12, 0x23, 0x04, 0x94, 0x04, 0x08, 0x20, 0x24, 0x08, \
         0x20, 0x26, 0x22, 0x23, 0x10",
        ".set uzswap_gateway, 0",
        ".rept {all}",
        "syscall",
        "jmp qword ptr [rip + {backs} + uzswap_gateway]",
        ".set uzswap_gateway, uzswap_gateway + 16",
        ".endr",
        ".cfi_endproc",
        all = const ALL,
        backs = sym BACKS,
    )
}

/// What room there is on the stacks that calls of a site are made on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// As C code expects it.
    Enough = 1,
    /// For little more than the call: a goroutine's.
    Little,
}

/// A gateway, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway(usize);

impl Gateway {
    /// The next one for a site that is patched. `None`: all are taken.
    pub fn next() -> Option<Self> {
        let number = USED.fetch_add(1, Ordering::Relaxed);
        (number < PATCHED).then_some(Self(number))
    }

    /// The one of a site whose calls are dispatched, by the address behind it. `None`: none is
    /// left. Takes no lock: a handler of a signal may interrupt it anywhere.
    pub fn of(origin: usize) -> Option<Self> {
        let first = origin.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        for number in (0..DISPATCHED).map(|n| PATCHED + (first + n) % DISPATCHED) {
            let gateway = Self(number);
            match BACKS[number][0].compare_exchange(0, origin, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {}
                Err(taken) if taken == origin => {}
                Err(_) => continue,
            }
            BACKS[number][1].store(origin, Ordering::Release);
            return Some(gateway);
        }
        None
    }

    /// What room there is for its calls, which are dispatched; it is found out once.
    pub fn room(self, find_out: impl FnOnce() -> Room) -> Room {
        let known = &ROOMS[self.0 - PATCHED];
        match known.load(Ordering::Relaxed) {
            0 => {
                let room = find_out();
                known.store(room as u8, Ordering::Relaxed);
                room
            }
            room if room == Room::Little as u8 => Room::Little,
            _ => Room::Enough,
        }
    }

    /// It leads to `back`, for the call in front of `origin`. Before anybody can be there.
    pub fn lead(self, back: usize, origin: usize) {
        BACKS[self.0][0].store(back, Ordering::Relaxed);
        BACKS[self.0][1].store(origin, Ordering::Release);
    }

    /// Its address.
    pub fn addr(self) -> usize {
        gateways as *const () as usize + self.0 * STRIDE
    }
}

/// Whether the call in front of `ip`, in the agent, is one that the program makes. The others are
/// ours.
pub fn is_of_program(ip: usize) -> bool {
    let first = gateways as *const () as usize;
    (first..first + ALL * STRIDE).contains(&ip) || guard::is_entry(ip) || instructions::is_behind_program_call(ip)
}

/// Calls that are made here pass; an empty range: all do.
static PASSING: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Have the kernel stop every system call of this thread that is not made in `[start, end)`, and of
/// each that [dispatches](dispatch) from now on. The handler of SIGSYS is there.
///
/// # Errors
/// Linux before 5.11, or a filter of system calls: all pass.
pub fn begin_dispatch(start: usize, end: usize) -> Result<()> {
    change_dispatch(1, start, end)?;
    PASSING[0].store(start, Ordering::Relaxed);
    PASSING[1].store(end, Ordering::Relaxed);
    Ok(())
}

/// The same in a thread that begins, until it ends or calls execve. No child inherits it. False:
/// its calls pass.
pub fn dispatch() -> bool {
    let [start, end] = [0, 1].map(|n| PASSING[n].load(Ordering::Relaxed));
    start < end && change_dispatch(1, start, end).is_ok()
}

/// All calls of this thread pass from now on.
pub fn end_dispatch() {
    let _ = change_dispatch(0, 0, 0);
}

fn change_dispatch(how: usize, start: usize, end: usize) -> Result<()> {
    const SYS_PRCTL: usize = 157;
    // SAFETY: no selector: nothing is read.
    unsafe { syscall(SYS_PRCTL, [SET_SYSCALL_USER_DISPATCH, how, start, end - start, 0, 0]) }.map(drop)
}

/// PR_SET_SYSCALL_USER_DISPATCH.
pub const SET_SYSCALL_USER_DISPATCH: usize = 59;

#[cfg(all(test, not(miri)))]
mod test {
    use super::*;

    #[test]
    fn gateways_are_as_far_apart_as_their_words() {
        let code = gateways as *const () as usize;
        // SAFETY: code of ours.
        let bytes =
            unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance::<u8>(code), ALL * STRIDE) };
        for (n, gateway) in bytes.chunks(STRIDE).enumerate() {
            assert_eq!(gateway[..4], [0x0f, 0x05, 0xff, 0x25]);
            let distance = i32::from_le_bytes(gateway[4..].try_into().unwrap());
            let leads = (code + (n + 1) * STRIDE).wrapping_add_signed(distance as isize);
            assert_eq!(leads, (&raw const BACKS[n]).addr());
        }
    }

    #[test]
    fn a_site_has_one_gateway() {
        let first = Gateway::of(0x1234).unwrap();
        assert_eq!(Gateway::of(0x1234), Some(first));
        assert_ne!(Gateway::of(0x1235), Some(first));
        assert_eq!(BACKS[first.0][0].load(Ordering::Relaxed), 0x1234);
        let all = (0..2 * DISPATCHED).filter(|n| Gateway::of(0x10_0000 + n).is_some());
        assert_eq!(all.count(), DISPATCHED - 2);
        assert_eq!(Gateway::of(0x1234), Some(first));
    }
}
