extern crate std;

use std::sync::{Mutex, MutexGuard};

use rustix::fd::OwnedFd;
use rustix::io;

use super::*;
use crate::mapping::Mapping;
use crate::maps::Maps;
use crate::procfs::ProcSelf;
use crate::uffd::Event;

const PAGE: usize = PAGE_SIZE;

/// Fills of one test would meet changes of another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A mapping under our care, of which the second unit was touched; its file, and what says what
/// is mapped.
fn registered() -> (Mapping, OwnedFd, ProcSelf) {
    begin().unwrap();
    let mut mapping = Mapping::reserve_aligned(4 * UNIT, UNIT).unwrap().without_huge_pages();
    mapping.write(UNIT + PAGE, &[7; 3]);
    let (memory, proc) = (ProcMem::open_to_write().unwrap().into_fd(), ProcSelf::open().unwrap());
    register(memory.as_fd(), &proc, mapping.addr(), mapping.addr() + mapping.len()).unwrap();
    (mapping, memory, proc)
}

fn bytes_at(memory: &OwnedFd, addr: usize) -> [u8; 3] {
    let mut bytes = [0; 3];
    assert_eq!(io::pread(memory, &mut bytes, addr as u64), Ok(3));
    bytes
}

#[test]
fn what_was_touched_stays_open_with_its_unit() {
    let _alone = alone();
    let (mapping, memory, _) = registered();
    let at = |n: usize| touched(mapping.addr() + n, Access::Write);
    assert_eq!(
        [at(0), at(UNIT), at(2 * UNIT - PAGE), at(2 * UNIT)],
        [Touched::Closed, Touched::Open, Touched::Open, Touched::Closed]
    );
    assert_eq!(bytes_at(&memory, mapping.addr() + UNIT + PAGE), [7; 3]);
    assert_eq!(touched(mapping.addr(), Access::Execute), Touched::Other);
    assert!(meets_closed(mapping.addr(), 1, Access::Read) || !is_on());
    forget(mapping.addr(), mapping.addr() + mapping.len());
    assert_eq!(at(0), Touched::Other);
}

#[test]
fn a_page_leaves_and_comes_back() {
    let _alone = alone();
    let (mapping, memory, _) = registered();
    let addr = mapping.addr() + UNIT;
    let filling = Filling::begin().unwrap();
    assert_eq!(close(&filling, addr, 3 * UNIT), Ok(UNIT));
    assert_eq!(close(&filling, addr, UNIT), Err(Errno::NOENT));
    let contents = [5; PAGE];
    drop_closed(memory.as_fd(), &filling, addr, &contents).unwrap();
    drop(filling);
    assert_eq!(touched(addr, Access::Read), Touched::Closed);
    assert_eq!(bytes_at(&memory, addr), [0; 3]);
    assert_eq!(
        copy(memory.as_fd(), addr, &contents),
        Filled {
            bytes: PAGE,
            stop: None
        }
    );
    assert_eq!(
        (bytes_at(&memory, addr), touched(addr, Access::Read)),
        ([5; 3], Touched::Open)
    );
    assert_eq!(copy(memory.as_fd(), addr, &contents).stop, Some(Errno::EXIST));
    forget(mapping.addr(), mapping.addr() + mapping.len());
    assert_eq!(copy(memory.as_fd(), addr, &contents).stop, Some(Errno::NOENT));
}

#[test]
fn nothing_is_filled_while_mappings_change() {
    let _alone = alone();
    let (mapping, memory, proc) = registered();
    let (start, end) = (mapping.addr(), mapping.addr() + mapping.len());
    let changing = Changing::begin();
    assert_eq!(copy(memory.as_fd(), start, &[1; PAGE]).stop, Some(Errno::AGAIN));
    assert_eq!(lose(start), Err(Errno::AGAIN));
    // Read-only, and what is open is told to the kernel.
    let mut told = 0;
    change_access(&changing, start, end, 1, |from, to, prot| {
        told += if prot == 1 { to - from } else { 0 };
        Ok(())
    })
    .unwrap();
    assert_eq!(told, UNIT);
    begin_drop(&changing, start, end);
    end_drop(&changing, start, end, true);
    assert_eq!(touched(start + UNIT, Access::Read), Touched::Closed);
    join(&changing, &Maps::of_program().unwrap(), start, end).unwrap();
    part(start, end);
    drop(changing);
    assert_eq!(touched(start, Access::Write), Touched::Other);
    copy(memory.as_fd(), start, &[1; PAGE]);
    let vma = proc.vma_at_or_after(start).unwrap().unwrap();
    assert_eq!((vma.start, vma.access()), (start, [true, false, false]));
    forget(start, end);
}

#[test]
fn events_are_read_once() {
    let _alone = alone();
    let changing = Changing::begin();
    let posted = post_remap(&changing, 0x1000, 0x5000, 0x2000);
    assert!(has_events() && !posted.is_read_within(1));
    let mut seen = 0;
    read_events(|event| {
        assert!(matches!(
            event,
            Event::Remap {
                from: 0x1000,
                to: 0x5000,
                len: 0x2000
            }
        ));
        seen += 1;
    });
    assert!(seen == 1 && !has_events() && posted.is_read_within(1));
}

#[test]
fn what_the_kernel_has_swapped_out_keeps_its_contents() {
    let _alone = alone();
    begin().unwrap();
    let mut mapping = Mapping::reserve_aligned(2 * UNIT, UNIT).unwrap().without_huge_pages();
    let (start, end) = (mapping.addr(), mapping.addr() + mapping.len());
    mapping.write(0, &[7; 3]);
    mapping.write(PAGE, &[7; 3]);
    // Does nothing where the system has no swap.
    // SAFETY: our own mapping, whose contents stay.
    unsafe { mm::madvise(start as *mut c_void, end - start, Advice::LinuxPageOut).unwrap() };
    let (memory, proc) = (ProcMem::open_to_write().unwrap().into_fd(), ProcSelf::open().unwrap());
    register(memory.as_fd(), &proc, start, end).unwrap();
    assert_eq!([0, PAGE].map(|at| bytes_at(&memory, start + at)), [[7; 3]; 2]);
    assert_eq!(touched(start, Access::Write), Touched::Open);
    forget(start, end);
}

/// In a process of its own: it has as many mappings as the kernel allows.
#[test]
fn what_was_opened_before_mappings_were_too_many_is_open() {
    let own = std::env::current_exe().unwrap();
    let child = "closed::test::mappings_are_too_many";
    let ran = std::process::Command::new(own)
        .args(["--ignored", "--exact", child])
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{}",
        std::string::String::from_utf8_lossy(&ran.stdout)
    );
}

#[test]
#[ignore = "run by the one above"]
fn mappings_are_too_many() {
    let (mapping, ..) = registered();
    let start = mapping.addr();
    // The second and third units are another mapping for the kernel.
    let other = (start + 2 * UNIT) as *mut c_void;
    // SAFETY: our own mapping, whose contents stay.
    unsafe { mm::madvise(other, 2 * UNIT, Advice::LinuxDontDump).unwrap() };
    let filling = Filling::begin().unwrap();
    assert_eq!(close(&filling, start + UNIT, UNIT), Ok(UNIT));
    let many = Mapping::reserve(200_000 * PAGE).unwrap();
    // SAFETY: a mapping that nobody reads or writes.
    let splits = |n: usize| unsafe {
        mm::mprotect(
            (many.addr() + n * 2 * PAGE) as *mut c_void,
            PAGE,
            MprotectFlags::empty(),
        )
        .is_ok()
    };
    assert!(!(0..100_000).all(splits));
    let (opened, result) = open(start, start + 2 * UNIT + PAGE);
    assert_eq!((opened - start, result), (2 * UNIT, Err(Errno::NOMEM)));
    let at = |n: usize| touched(start + n, Access::Write);
    assert_eq!(
        [at(0), at(UNIT), at(2 * UNIT - PAGE), at(2 * UNIT)],
        [Touched::Open, Touched::Open, Touched::Open, Touched::Closed]
    );
}
