//! Calls that reach the memory of other processes: nobody brings what is out there.

use core::sync::atomic::{AtomicBool, Ordering};

use uzswap_ctl::{Field, Group};
use uzswap_sys::guard::Call;
use uzswap_sys::thread;

use crate::{Line, pager};

const SYS_PROCESS_VM_READV: usize = 310;
const SYS_PROCESS_VM_WRITEV: usize = 311;

/// That such a call failed was said.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// A call failed, as the kernel did not find what it reaches (EFAULT): that may be what is out in
/// the other process. In a thread of the program.
pub(super) fn say_why(call: &Call) {
    let name = match call.number {
        SYS_PROCESS_VM_READV => "process_vm_readv",
        SYS_PROCESS_VM_WRITEV => "process_vm_writev",
        _ => return,
    };
    let process = call.args[0];
    let is_out = |group: Group| {
        group
            .slot_of(process as u64)
            .is_some_and(|slot| has_pages_out(group, slot))
    };
    let is_ours = process != thread::pid() as usize && pager::group().is_some_and(is_out);
    if is_ours && !IS_SAID.swap(true, Ordering::Relaxed) {
        pager::say(
            Line::of(format_args!(
                "uzswap: {name} of process {process}, of which pages are out, fails in process {}. Run both as root, or have the program \
                 share memory in another way (Open MPI: OMPI_MCA_osc=pt2pt OMPI_MCA_btl_vader_single_copy_mechanism=none)\n",
                thread::pid(),
            ))
            .as_str(),
        );
    }
}

fn has_pages_out(group: Group, slot: usize) -> bool {
    let out = [Field::Staged, Field::Stored, Field::Swapped];
    out.into_iter().any(|field| group.field(slot, field) > 0)
}
