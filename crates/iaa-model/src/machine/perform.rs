//! One job on its engine, or the fault that it meets.

use crate::completion::Record;
use crate::device::Job;
use crate::fault::Fault;
use crate::memory::Memory;
use crate::operation::{Effects, Tamper, does_not_fit, execute, made_up_fault};
use crate::status::Status;

/// Run a job. Real machines do so without the state's lock.
pub(super) fn perform(job: &Job, memory: &dyn Memory, runs_cross: bool) -> Effects {
    let d = &job.descriptor;
    let run = |tamper| execute(d, &job.rules, memory, tamper, runs_cross);
    let mut effects = match job.entry.fault {
        Some(Fault::NeverCompletes) => Effects::default(),
        Some(Fault::Watchdog) => Effects::of(Record::of(Status::Watchdog)),
        Some(Fault::Translation) => Effects::of(Record::of(Status::Translation)),
        Some(Fault::PageRequestTimeout) => Effects::of(Record::of(Status::PageRequestTimeout)),
        Some(Fault::HardwareError) => Effects::of(Record::of(Status::HardwareError)),
        Some(Fault::ReadbackError) => Effects::of(Record::of(Status::ReadbackError)),
        Some(Fault::PageFault { write }) => Effects::of(made_up_fault(d, write)),
        Some(Fault::DoesNotFit) => Effects::of(does_not_fit()),
        Some(Fault::Corrupt { code }) => Effects::of(Record::error(code)),
        Some(Fault::WrongData) => run(Tamper::Data),
        Some(Fault::Overflow { partial: true }) => run(Tamper::HalfRoom),
        Some(Fault::Overflow { partial: false }) => run(Tamper::NoRoom),
        _ => run(Tamper::None),
    };
    match job.entry.fault {
        Some(Fault::WrongCrc) => effects.record.crc ^= 0x5a5a_5a5a,
        Some(Fault::FlippedByte) => {
            let bytes = &mut effects.output.bytes;
            let at = (job.entry.sequence.wrapping_mul(0x9e37_79b9) as usize).checked_rem(bytes.len());
            at.into_iter().for_each(|at| bytes[at] ^= 0x10);
        }
        _ => {}
    }
    effects
}
