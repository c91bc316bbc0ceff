//! Messages, semaphores and shared memory.

use linux_raw_sys::general as nr;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};
use crate::things::{self, SEMAPHORES};

const NOWAIT: usize = 0o4000;
const MESSAGE: usize = 8000;
const IPC_STAT: usize = 2;
/// Of `struct mq_attr`; messages of a queue, and their bytes.
const ATTRIBUTES: usize = 64;
const QUEUED: u64 = 8;
const QUEUED_BYTES: u64 = 5000;

pub(super) const CALLS: &[Call] = &[
    ("msgsnd", 6, |p| {
        let len = p.below(MESSAGE);
        let mut message = (1 + p.random.below(3)).to_le_bytes().to_vec();
        message.resize(8 + len, 0x99);
        let message = p.input(&message);
        p.call(nr::__NR_msgsnd, &[p.things.messages, message, w(len), w(NOWAIT)]);
    }),
    ("msgrcv", 6, |p| {
        let (len, kind) = (p.below(MESSAGE), p.below(4));
        let message = p.output(len + 8);
        // MSG_NOERROR
        let flags = p.pick(&[NOWAIT, NOWAIT | 0o10000]);
        p.call(
            nr::__NR_msgrcv,
            &[p.things.messages, message, w(len), w(kind), w(flags)],
        );
    }),
    ("msgctl", 2, |p| {
        let stat = p.loose(120);
        p.call(nr::__NR_msgctl, &[p.things.messages, w(IPC_STAT), stat]);
    }),
    ("semop", 4, |p| {
        let [list, count] = operations(p);
        p.call(nr::__NR_semop, &[p.things.semaphores, list, count]);
    }),
    ("semtimedop", 4, |p| {
        let ([list, count], time) = (operations(p), p.time(0, 1000));
        p.call(nr::__NR_semtimedop, &[p.things.semaphores, list, count, time]);
    }),
    ("semctl", 5, |p| {
        // GETALL, SETALL, IPC_STAT.
        match p.below(3) {
            0 => {
                let values = p.output(2 * SEMAPHORES);
                p.call(nr::__NR_semctl, &[p.things.semaphores, w(0), w(13), values]);
            }
            1 => {
                let values = p.input(&[1, 0].repeat(SEMAPHORES));
                p.call(nr::__NR_semctl, &[p.things.semaphores, w(0), w(17), values]);
            }
            _ => {
                let stat = p.loose(104);
                p.call(nr::__NR_semctl, &[p.things.semaphores, w(0), w(IPC_STAT), stat]);
            }
        }
    }),
    ("shmctl", 2, |p| {
        let stat = p.output(112);
        p.call(nr::__NR_shmctl, &[w(p.things.segment), w(IPC_STAT), stat]);
    }),
    ("mq_open", 4, |p| {
        let words = [0, QUEUED, QUEUED_BYTES, 0, 0, 0, 0, 0];
        let attributes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (name, attributes) = (queue_name(p), p.input(&attributes));
        let flags = w((nr::O_CREAT | nr::O_RDWR | nr::O_NONBLOCK) as usize);
        p.call(nr::__NR_mq_open, &[name, flags, w(0o600), attributes]);
        p.answers(Answer::Number);
        p.after(|p, results| {
            if let [Ok(a), Ok(b)] = results.map(usize::try_from) {
                let old = p.things.queues.replace([a, b]);
                old.into_iter().flatten().for_each(|old| things::close(old as isize));
            }
            Ok(())
        });
    }),
    ("mq_unlink", 2, |p| {
        let name = queue_name(p);
        p.call(nr::__NR_mq_unlink, &[name]);
    }),
    ("mq_timedsend", 8, |p| {
        let (queue, len, time) = (queue(p), p.below(QUEUED_BYTES as usize + 50), p.time(0, 1000));
        let (message, urgency) = (p.output(len), p.below(5));
        p.call(nr::__NR_mq_timedsend, &[queue, message, w(len), w(urgency), time]);
    }),
    ("mq_timedreceive", 8, |p| {
        let (queue, len) = (queue(p), QUEUED_BYTES as usize - 20 + p.below(5000));
        let (message, urgency, time) = (p.output(len), p.output(4), p.time(0, 1000));
        p.call(nr::__NR_mq_timedreceive, &[queue, message, w(len), urgency, time]);
    }),
    ("mq_getsetattr", 4, |p| {
        let queue = queue(p);
        let mut attributes = vec![0; ATTRIBUTES];
        attributes[..4].copy_from_slice(&nr::O_NONBLOCK.to_le_bytes());
        let new = if p.one_in(2) { w(0) } else { p.input(&attributes) };
        let was = p.output(ATTRIBUTES);
        p.call(nr::__NR_mq_getsetattr, &[queue, new, was]);
    }),
    ("mq_notify", 3, |p| {
        // SIGEV_NONE
        let mut event = vec![0; 64];
        event[12] = 1;
        let (queue, event) = (queue(p), p.input(&event));
        p.call(nr::__NR_mq_notify, &[queue, event]);
    }),
];

fn queue(p: &mut Play) -> Twin {
    p.things.queues.unwrap_or(w(usize::MAX))
}

fn queue_name(p: &mut Play) -> Twin {
    let [a, b] = ["a", "b"].map(|which| format!("uzswap-callfuzz.{}.{which}\0", p.things.process));
    p.twin_input(a.as_bytes(), b.as_bytes())
}

fn operations(p: &mut Play) -> [Twin; 2] {
    let count = p.below(600);
    let mut bytes = Vec::new();
    for _ in 0..count {
        let (which, what) = (p.below(3) as u16, p.pick(&[1i16, -1, 0]));
        bytes.extend(which.to_le_bytes());
        bytes.extend(what.to_le_bytes());
        bytes.extend((NOWAIT as u16).to_le_bytes());
    }
    [p.whole_input(&bytes), w(count)]
}
