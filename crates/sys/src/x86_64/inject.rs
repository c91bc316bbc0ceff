//! Putting a library into a program that loads none, before its first instruction. The launcher
//! does this, as the tracer of its child, or of what descends from it, which needs no privilege.
//!
//! The child stops when it has become the program. Its tracer writes a system call and a breakpoint
//! over the first bytes of the program, has the child make the calls that map the library, writes
//! what the linker would have relocated, calls the library's entry as a function, and puts all back
//! as it was.
//!
//! ```text
//! a child of the launcher's    PTRACE_TRACEME, execve -> SIGTRAP            [`inject`]
//! a descendant, which asks     SEIZED -execve-> EXEC -> inject -> DETACHED  [`crate::tracee`]
//!                                 \-- in vain, or too late -> INTERRUPTED -> DETACHED
//! ```

use alloc::ffi::CString;
use alloc::vec::Vec;

use linux_raw_sys::general as raw;
use rustix::fd::OwnedFd;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{Errno, Result};
use rustix::path::DecInt;

use crate::PAGE_SIZE;
use crate::launch::Signals;
use crate::signal::{SIGBUS, SIGSEGV, SIGSYS, SYS_USER_DISPATCH, bit};
use crate::thread::{self, restore_signals, syscall};
use crate::wait::{ALL, EXITED, LEAVE, STOPPED, wait};

const PTRACE_TRACEME: usize = 0;
const PTRACE_PEEKDATA: usize = 2;
const PTRACE_POKEDATA: usize = 5;
pub(crate) const PTRACE_CONT: usize = 7;
const PTRACE_GETREGS: usize = 12;
const PTRACE_SETREGS: usize = 13;
const PTRACE_DETACH: usize = 17;
const PTRACE_SETOPTIONS: usize = 0x4200;
const PTRACE_GETSIGINFO: usize = 0x4202;
const PTRACE_GETSIGMASK: usize = 0x420a;
const PTRACE_SETSIGMASK: usize = 0x420b;
/// The event that a stop may tell of, above its signal: it was interrupted.
pub(crate) const EVENT_STOP: i32 = 128;
/// The child ends with its tracer.
const PTRACE_O_EXITKILL: usize = 1 << 20;

/// `syscall`, a breakpoint, and filling.
const CALL: [u8; 8] = [0x0f, 0x05, 0xcc, 0x90, 0x90, 0x90, 0x90, 0x90];
/// Signals that what is run there raises: it would again and again.
const MISTAKES: [i32; 4] = [
    raw::SIGSEGV as i32,
    raw::SIGBUS as i32,
    raw::SIGILL as i32,
    raw::SIGFPE as i32,
];
/// Signals that stop a process.
const STOPS: [i32; 4] = [
    raw::SIGSTOP as i32,
    raw::SIGTSTP as i32,
    raw::SIGTTIN as i32,
    raw::SIGTTOU as i32,
];
/// Where a function of the child's returns to: the breakpoint.
const RETURN: usize = 2;
/// Below the first word of the child's stack, for strings and for the library's entry.
const BELOW: usize = 4096;

const READ: usize = raw::PROT_READ as usize;
const WRITE: usize = raw::PROT_WRITE as usize;
const EXEC: usize = raw::PROT_EXEC as usize;
const PRIVATE: usize = raw::MAP_PRIVATE as usize;
const ANONYMOUS: usize = raw::MAP_ANONYMOUS as usize;
const FIXED: usize = raw::MAP_FIXED as usize;

/// A part of a library that is loaded, with addresses from its beginning on.
#[derive(Clone, Debug)]
pub struct Load {
    pub addr: usize,
    /// Bytes in memory.
    pub len: usize,
    pub offset: usize,
    /// Bytes in the file.
    pub file_len: usize,
    pub is_written: bool,
    pub is_executed: bool,
}

/// A library as it is to be loaded.
#[derive(Clone, Debug)]
pub struct Library {
    /// Its file.
    pub path: CString,
    pub loads: Vec<Load>,
    /// Words that take an address: where, and which, both from its beginning on.
    pub relocations: Vec<(usize, usize)>,
    /// What is to be called, as `main` is: how many arguments, the arguments, the environment.
    pub entry: usize,
}

/// `struct user_regs_struct`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Registers {
    r15: usize,
    r14: usize,
    r13: usize,
    r12: usize,
    rbp: usize,
    rbx: usize,
    r11: usize,
    r10: usize,
    r9: usize,
    r8: usize,
    rax: usize,
    rcx: usize,
    rdx: usize,
    rsi: usize,
    rdi: usize,
    orig_rax: usize,
    rip: usize,
    cs: usize,
    eflags: usize,
    rsp: usize,
    rest: [usize; 7],
}

/// # Safety
/// As ptrace(2) asks for: addresses of this process only where the request reads or writes it.
pub(crate) unsafe fn ptrace(request: usize, pid: i32, addr: usize, data: usize) -> Result<usize> {
    let args = [request, pid as usize, addr, data, 0, 0];
    // SAFETY: the caller's promise.
    unsafe { syscall(raw::__NR_ptrace as usize, args) }
}

/// In a child of the launcher: have it stop when it has become another program. Until then nothing
/// else may stop it, as its tracer waits for that: signals are blocked. `blocked`: that program's.
///
/// # Errors
/// EPERM: it is traced already, or a filter or Yama forbids that.
pub(crate) fn let_trace(blocked: u64) -> Result<()> {
    restore_signals(mask_for_agent(blocked));
    // SAFETY: takes no address.
    unsafe { ptrace(PTRACE_TRACEME, 0, 0, 0) }.map(drop)
}

/// Signals that the agent may have for itself. It unblocks them then, and notes what of them the
/// program has blocked.
const OF_AGENT: u64 = bit(SIGBUS) | bit(SIGSYS) | bit(SIGSEGV);

/// What is blocked while the agent begins in a program that has these blocked: all but those, and
/// what tells of a breakpoint.
pub(crate) fn mask_for_agent(blocked: u64) -> u64 {
    !(OF_AGENT | bit(raw::SIGTRAP as i32)) | blocked & OF_AGENT
}

/// A child of this thread, which stands.
pub(crate) struct Child {
    pid: i32,
    memory: OwnedFd,
    registers: Registers,
    /// The bytes that [`CALL`] is written over.
    kept: usize,
    /// Signals that came meanwhile.
    signals: Vec<i32>,
}

/// The file of the memory of a process that stands.
fn memory_of(pid: i32) -> Result<OwnedFd> {
    let (proc, flags) = (OFlags::PATH | OFlags::CLOEXEC, OFlags::RDWR | OFlags::CLOEXEC);
    let proc = fs::open(c"/proc", proc, Mode::empty())?;
    let process = fs::openat(&proc, DecInt::new(pid), OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    fs::openat(&process, c"mem", flags, Mode::empty())
}

/// Put `library` into `pid`, a child that [`start`](crate::launch::start) had stop, and let it go,
/// with the signals blocked that this process was started with.
///
/// # Errors
/// What the child's calls answer, or ours. ESRCH: it has ended. It stands then.
pub fn inject(pid: i32, library: &Library, signals: &Signals) -> Result<()> {
    while wait_for_stop(pid)? != raw::SIGTRAP as i32 {
        // SAFETY: takes no address.
        unsafe { ptrace(PTRACE_CONT, pid, 0, 0)? };
    }
    let mut child = Child::begin(pid, Vec::new())?;
    let base = child.map(library)?;
    child.call_entry(base + library.entry)?;
    child.end(signals.inherited())
}

/// The signals that a process which stands has blocked.
pub(crate) fn mask(pid: i32) -> Result<u64> {
    let mut blocked = 0u64;
    // SAFETY: writes a mask of this size.
    unsafe { ptrace(PTRACE_GETSIGMASK, pid, size_of::<u64>(), (&raw mut blocked).addr())? };
    Ok(blocked)
}

pub(crate) fn set_mask(pid: i32, mask: u64) -> Result<()> {
    // SAFETY: reads a mask of this size.
    unsafe { ptrace(PTRACE_SETSIGMASK, pid, size_of::<u64>(), (&raw const mask).addr()) }.map(drop)
}

pub(crate) fn detach(pid: i32) -> Result<()> {
    // SAFETY: takes no address.
    unsafe { ptrace(PTRACE_DETACH, pid, 0, 0) }.map(drop)
}

impl Child {
    /// One that is not to run anything of ours.
    pub(crate) fn standing(pid: i32) -> Result<Self> {
        let mut child = Self {
            pid,
            memory: memory_of(pid)?,
            registers: Registers::default(),
            kept: 0,
            signals: Vec::new(),
        };
        child.registers = child.read_registers()?;
        Ok(child)
    }

    /// A program that stands before its first instruction.
    pub(crate) fn begin(pid: i32, signals: Vec<i32>) -> Result<Self> {
        let mut child = Self {
            signals,
            ..Self::standing(pid)?
        };
        // SAFETY: takes no address.
        unsafe { ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL)? };
        let code = child.registers.rip;
        // SAFETY: writes one word of ours.
        unsafe { ptrace(PTRACE_PEEKDATA, pid, code, (&raw mut child.kept).addr())? };
        child.poke(code, usize::from_ne_bytes(CALL))?;
        Ok(child)
    }

    /// Let it go, with the library, and these signals blocked but for the library's own.
    pub(crate) fn end(self, blocked: u64) -> Result<()> {
        let kept = mask(self.pid)? & OF_AGENT;
        self.leave(blocked & !OF_AGENT | kept)
    }

    /// Let it go as it was, with these signals blocked.
    pub(crate) fn leave(self, blocked: u64) -> Result<()> {
        self.poke(self.registers.rip, self.kept)?;
        self.write_registers(&Registers {
            orig_rax: usize::MAX,
            ..self.registers
        })?;
        set_mask(self.pid, blocked)?;
        // One that stops it goes along: sent anew, it would undo what continues it meanwhile.
        let is_stop = |signal: &&i32| STOPS.contains(*signal);
        let stop = self.signals.iter().rfind(is_stop).copied().unwrap_or(0);
        // SAFETY: takes no address.
        unsafe { ptrace(PTRACE_DETACH, self.pid, 0, stop as usize)? };
        for signal in self.signals.iter().filter(|signal| !is_stop(signal)) {
            thread::signal(self.pid, *signal);
        }
        Ok(())
    }

    fn read_registers(&self) -> Result<Registers> {
        let mut registers = Registers::default();
        // SAFETY: writes one such struct.
        unsafe { ptrace(PTRACE_GETREGS, self.pid, 0, (&raw mut registers).addr())? };
        Ok(registers)
    }

    fn write_registers(&self, registers: &Registers) -> Result<()> {
        // SAFETY: reads one such struct.
        unsafe { ptrace(PTRACE_SETREGS, self.pid, 0, (&raw const *registers).addr()) }.map(drop)
    }

    /// Where its stack begins.
    pub(crate) fn stack(&self) -> usize {
        self.registers.rsp
    }

    /// Have it begin elsewhere.
    pub(crate) fn move_stack(&mut self, rsp: usize) -> Result<()> {
        self.registers.rsp = rsp;
        self.write_registers(&self.registers)
    }

    fn poke(&self, addr: usize, word: usize) -> Result<()> {
        // SAFETY: changes the child alone.
        unsafe { ptrace(PTRACE_POKEDATA, self.pid, addr, word) }.map(drop)
    }

    /// Write to the child's memory. Not by process_vm_writev(2), which containers forbid.
    pub(crate) fn write(&self, addr: usize, bytes: &[u8]) -> Result<()> {
        match rustix::io::pwrite(&self.memory, bytes, addr as u64)? == bytes.len() {
            true => Ok(()),
            false => Err(Errno::FAULT),
        }
    }

    /// Read the child's memory.
    pub(crate) fn read(&self, addr: usize, bytes: &mut [u8]) -> Result<()> {
        let len = bytes.len();
        match rustix::io::pread(&self.memory, bytes, addr as u64)? == len {
            true => Ok(()),
            false => Err(Errno::FAULT),
        }
    }

    /// Have it go on until it comes to the breakpoint. Returns its rax.
    fn run(&mut self, registers: &Registers) -> Result<usize> {
        self.write_registers(&Registers {
            // No call that was interrupted.
            orig_rax: usize::MAX,
            ..*registers
        })?;
        let mut handled = 0;
        loop {
            // SAFETY: takes no address.
            unsafe { ptrace(PTRACE_CONT, self.pid, 0, handled)? };
            handled = 0;
            match wait_for_stop(self.pid)? {
                signal if signal == raw::SIGTRAP as i32 => return Ok(self.read_registers()?.rax),
                // A call that the agent sees to, which has a handler for that by now.
                SIGSYS if self.is_dispatched()? => handled = SIGSYS as usize,
                signal if MISTAKES.contains(&signal) => return Err(Errno::FAULT),
                // It was interrupted before.
                status if status >> 8 == EVENT_STOP => {}
                signal => self.signals.push(signal),
            }
        }
    }

    /// Whether the signal that it stopped at is that of a system call (Syscall User Dispatch).
    fn is_dispatched(&self) -> Result<bool> {
        // Its third word is `si_code`.
        let mut info = [0i32; 32];
        // SAFETY: the kernel writes a siginfo_t, which is as long.
        unsafe { ptrace(PTRACE_GETSIGINFO, self.pid, 0, (&raw mut info).addr())? };
        Ok(info[2] == SYS_USER_DISPATCH)
    }

    fn call(&mut self, number: u32, args: [usize; 6]) -> Result<usize> {
        let [rdi, rsi, rdx, r10, r8, r9] = args;
        let registers = Registers {
            rax: number as usize,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            ..self.registers
        };
        let result = self.run(&registers)? as isize;
        match result {
            -4095..=-1 => Err(Errno::from_raw_os_error(-result as i32)),
            value => Ok(value as usize),
        }
    }

    fn mmap(&mut self, addr: usize, len: usize, prot: usize, flags: usize, file: (usize, usize)) -> Result<usize> {
        self.call(raw::__NR_mmap, [addr, len, prot, flags | PRIVATE, file.0, file.1])
    }

    /// Map the library. Returns where it begins.
    pub(crate) fn map(&mut self, library: &Library) -> Result<usize> {
        let path = self.registers.rsp - BELOW;
        self.write(path, library.path.as_bytes_with_nul())?;
        let (flags, here) = ((raw::O_RDONLY | raw::O_CLOEXEC) as usize, raw::AT_FDCWD as usize);
        let fd = self.call(raw::__NR_openat, [here, path, flags, 0, 0, 0])?;
        let mapped = self.map_file(library, fd);
        let closed = self.call(raw::__NR_close, [fd, 0, 0, 0, 0, 0]);
        closed.and(mapped)
    }

    /// The same, from an open file. What cannot be mapped as a whole leaves nothing behind.
    fn map_file(&mut self, library: &Library, fd: usize) -> Result<usize> {
        let end = library.loads.iter().map(|load| load.addr + load.len).max().unwrap_or(0);
        let len = end.next_multiple_of(PAGE_SIZE);
        let base = self.mmap(0, len, 0, ANONYMOUS, (usize::MAX, 0))?;
        let mut loads = library.loads.iter();
        let filled = loads.try_for_each(|load| self.map_part(base, fd, load));
        let relocated = filled.and_then(|()| self.relocate(library, base));
        if relocated.is_err() {
            let _ = self.call(raw::__NR_munmap, [base, len, 0, 0, 0, 0]);
        }
        relocated.map(|()| base)
    }

    fn relocate(&self, library: &Library, base: usize) -> Result<()> {
        // All at once, with what lies between: most are neighbours.
        let places = library.relocations.iter().map(|(place, _)| *place);
        let (Some(first), Some(last)) = (places.clone().min(), places.max()) else {
            return Ok(());
        };
        let mut bytes = alloc::vec![0; last + size_of::<usize>() - first];
        self.read(base + first, &mut bytes)?;
        for (place, to) in &library.relocations {
            bytes[place - first..][..size_of::<usize>()].copy_from_slice(&(base + to).to_ne_bytes());
        }
        self.write(base + first, &bytes)
    }

    fn map_part(&mut self, base: usize, fd: usize, load: &Load) -> Result<()> {
        let prot = READ | if load.is_written { WRITE } else { 0 } | if load.is_executed { EXEC } else { 0 };
        let start = load.addr & !(PAGE_SIZE - 1);
        let file_end = load.addr + load.file_len;
        let mapped = file_end.next_multiple_of(PAGE_SIZE);
        let offset = load.offset & !(PAGE_SIZE - 1);
        self.mmap(base + start, mapped - start, prot, FIXED, (fd, offset))?;
        if load.len > load.file_len && mapped > file_end {
            self.write(base + file_end, &alloc::vec![0; mapped - file_end])?;
        }
        let end = (load.addr + load.len).next_multiple_of(PAGE_SIZE);
        if end > mapped {
            self.mmap(base + mapped, end - mapped, prot, FIXED | ANONYMOUS, (usize::MAX, 0))?;
        }
        Ok(())
    }

    /// Call the library's entry with what the kernel has put on the stack.
    pub(crate) fn call_entry(&mut self, entry: usize) -> Result<()> {
        let first = self.registers.rsp;
        let mut count = 0usize;
        // SAFETY: writes one word of ours.
        unsafe { ptrace(PTRACE_PEEKDATA, self.pid, first, (&raw mut count).addr())? };
        let arguments = first + size_of::<usize>();
        let rsp = ((first - BELOW) & !15) - size_of::<usize>();
        self.poke(rsp, self.registers.rip + RETURN)?;
        let registers = Registers {
            rip: entry,
            rsp,
            rdi: count,
            rsi: arguments,
            rdx: arguments + (count + 1) * size_of::<usize>(),
            ..self.registers
        };
        self.run(&registers).map(drop)
    }
}

/// Wait until a child stands: the signal that it stopped at, and the event above. ESRCH: it has
/// ended, which is left for others to be told of.
pub(crate) fn wait_for_stop(pid: i32) -> Result<i32> {
    if wait(Some(pid), STOPPED | EXITED | LEAVE | ALL)?.is_none_or(|found| found.has_ended) {
        return Err(Errno::SRCH);
    }
    wait(Some(pid), STOPPED | ALL).map(|stop| stop.map_or(0, |stop| stop.status))
}
