//! What a process asks of itself and of the machine.

use linux_raw_sys::general as nr;

use super::Call;
use crate::arena::Twin;
use crate::play::{Answer, Play, w};
use crate::things;

const USAGE: usize = 144;
const LIMIT: usize = 16;
/// Of which limit it is: of a core, which is 0 for both.
const RLIMIT_CORE: usize = 4;
/// The third version of what `capget` is asked.
const CAPABILITIES: u32 = 0x2008_0522;
const PR_SET_NAME: usize = 15;
const PR_GET_NAME: usize = 16;
const ARCH_GET_FS: usize = 0x1003;
const NAME: usize = 16;
const KEYRING: usize = usize::MAX - 1;

pub(super) const CALLS: &[Call] = &[
    ("uname", 3, |p| {
        let names = p.output(390);
        p.call(nr::__NR_uname, &[names]);
    }),
    ("sysinfo", 3, |p| {
        let info = p.loose(112);
        p.call(nr::__NR_sysinfo, &[info]);
    }),
    ("getrusage", 4, |p| {
        let (who, usage) = (p.pick(&[0, 1, usize::MAX, 9]), p.loose(USAGE));
        p.call(nr::__NR_getrusage, &[w(who), usage]);
    }),
    ("getrlimit", 3, |p| {
        let (which, limit) = (p.below(18), p.output(LIMIT));
        p.call(nr::__NR_getrlimit, &[w(which), limit]);
    }),
    ("setrlimit", 2, |p| {
        let limit = p.input(&[0; LIMIT]);
        p.call(nr::__NR_setrlimit, &[w(RLIMIT_CORE), limit]);
        p.before(|things, _| things.forbid_cores());
    }),
    ("prlimit64", 4, |p| {
        let (limit, was) = (p.input(&[0; LIMIT]), p.output(LIMIT));
        p.call(nr::__NR_prlimit64, &[w(0), w(RLIMIT_CORE), limit, was]);
        p.before(|things, _| things.forbid_cores());
    }),
    ("getgroups", 3, |p| {
        let count = p.below(70);
        let groups = p.output(count * 4);
        p.call(nr::__NR_getgroups, &[w(count), groups]);
    }),
    ("getresuid", 3, |p| three(p, nr::__NR_getresuid)),
    ("getresgid", 3, |p| three(p, nr::__NR_getresgid)),
    ("capget", 3, |p| {
        let mut header = CAPABILITIES.to_le_bytes().to_vec();
        header.extend([0; 4]);
        let (header, data) = (p.input(&header), p.output(24));
        p.call(nr::__NR_capget, &[header, data]);
    }),
    ("sched_getparam", 3, |p| {
        let parameter = p.output(4);
        p.call(nr::__NR_sched_getparam, &[w(0), parameter]);
    }),
    ("sched_setparam", 2, |p| {
        let parameter = p.input(&[0; 4]);
        p.call(nr::__NR_sched_setparam, &[w(0), parameter]);
    }),
    ("sched_setscheduler", 2, |p| {
        let parameter = p.input(&[0; 4]);
        p.call(nr::__NR_sched_setscheduler, &[w(0), w(0), parameter]);
    }),
    ("sched_rr_get_interval", 2, |p| {
        let time = p.loose(16);
        p.call(nr::__NR_sched_rr_get_interval, &[w(0), time]);
    }),
    ("sched_getaffinity", 4, |p| {
        let len = p.pick(&[8, 64, 128, 1024, 5000 & !7, 4]);
        let mask = p.output(len);
        p.call(nr::__NR_sched_getaffinity, &[w(0), w(len), mask]);
    }),
    ("sched_setaffinity", 2, |p| {
        let len = p.pick(&[8, 64, 128, 1024, 9000, 4]);
        let mask = p.input(&vec![0xff; len]);
        p.call(nr::__NR_sched_setaffinity, &[w(0), w(len), mask]);
    }),
    ("sched_getattr", 3, |p| {
        let len = p.pick(&[48, 56, 128, 4096, 8]);
        let attributes = p.output(len);
        p.call(nr::__NR_sched_getattr, &[w(0), attributes, w(len), w(0)]);
    }),
    ("sched_setattr", 2, |p| {
        // The size says what is read. SCHED_FLAG_KEEP_PARAMS.
        let len = p.pick(&[48, 56, 200, 4096]);
        let mut attributes = vec![0; len];
        attributes[..4].copy_from_slice(&(len as u32).to_le_bytes());
        attributes[8] = 0x18;
        let attributes = p.input(&attributes);
        p.call(nr::__NR_sched_setattr, &[w(0), attributes, w(0)]);
    }),
    ("getcpu", 3, |p| {
        let (processor, node) = (p.loose(4), p.output(4));
        p.call(nr::__NR_getcpu, &[processor, node]);
    }),
    ("prctl_set_name", 3, |p| {
        let name = p.pick(&["uzswap-callfuzz", "callfuzz", "a name that is too long"]);
        let name = p.text(name);
        p.call(nr::__NR_prctl, &[w(PR_SET_NAME), name]);
    }),
    ("prctl_get_name", 3, |p| {
        let name = p.output(NAME);
        p.call(nr::__NR_prctl, &[w(PR_GET_NAME), name]);
    }),
    ("arch_prctl", 2, |p| {
        let base = p.output(8);
        p.call(nr::__NR_arch_prctl, &[w(ARCH_GET_FS), base]);
    }),
    ("get_robust_list", 2, |p| {
        let (list, len) = (p.output(8), p.output(8));
        p.call(nr::__NR_get_robust_list, &[w(0), list, len]);
    }),
    ("get_mempolicy", 2, |p| {
        let (mode, nodes) = (p.output(4), p.output(128));
        p.call(nr::__NR_get_mempolicy, &[mode, nodes, w(1024), w(0), w(0)]);
    }),
    ("set_mempolicy", 2, |p| {
        // MPOL_DEFAULT, with no nodes.
        let (nodes, count) = (p.input(&[0; 128]), p.below(1024));
        p.call(nr::__NR_set_mempolicy, &[w(0), nodes, w(count)]);
    }),
    ("process_madvise", 2, |p| {
        const MADV_COLD: usize = 20;
        let (a, b) = (p.output(9000), p.output(10));
        let page = |at: Twin| at.map(|at| at & !4095);
        let list = p.words(&[page(a), w(4096), page(b), w(4096)]);
        p.call(
            nr::__NR_process_madvise,
            &[w(p.things.process_file), list, w(2), w(MADV_COLD), w(0)],
        );
    }),
    ("seccomp", 2, |p| {
        // SECCOMP_GET_ACTION_AVAIL, SECCOMP_GET_NOTIF_SIZES.
        if p.one_in(2) {
            let action = p.input(&0x7fff_0000u32.to_le_bytes());
            p.call(nr::__NR_seccomp, &[w(2), w(0), action]);
        } else {
            let sizes = p.output(6);
            p.call(nr::__NR_seccomp, &[w(3), w(0), sizes]);
        }
    }),
    ("landlock_create_ruleset", 2, |p| {
        let len = p.pick(&[8, 16, 24, 5000]);
        let mut rules = vec![0; len];
        rules[0] = 4;
        let rules = p.input(&rules);
        p.call(nr::__NR_landlock_create_ruleset, &[rules, w(len), w(0)]);
        p.answers(Answer::Number);
        p.after(|p, results| {
            if let [Ok(a), Ok(b)] = results.map(usize::try_from) {
                let old = std::mem::replace(&mut p.things.rules, [a, b]);
                old.into_iter().for_each(|old| things::close(old as isize));
            }
            Ok(())
        });
    }),
    ("landlock_add_rule", 2, |p| {
        let mut rule = 4u64.to_le_bytes().to_vec();
        rule.extend((p.things.fixed as u32).to_le_bytes());
        let rule = p.input(&rule);
        p.call(nr::__NR_landlock_add_rule, &[p.things.rules, w(1), rule, w(0)]);
    }),
    ("lsm_list_modules", 2, |p| {
        let len = p.below(200);
        let (modules, len) = (p.output(len), p.input(&(len as u32).to_le_bytes()));
        p.call(nr::__NR_lsm_list_modules, &[modules, len, w(0)]);
    }),
    ("lsm_get_self_attr", 2, |p| {
        let len = p.below(400);
        let (context, len) = (p.output(len), p.input(&(len as u32).to_le_bytes()));
        p.call(nr::__NR_lsm_get_self_attr, &[w(100), context, len, w(0)]);
    }),
    ("add_key", 2, |p| {
        let (kind, name, len) = (p.text("user"), p.text("uzswap-callfuzz"), p.below(100));
        let key = p.output(len);
        p.call(nr::__NR_add_key, &[kind, name, key, w(len), w(KEYRING)]);
    }),
    ("keyctl", 3, |p| {
        let len = p.below(300);
        // KEYCTL_DESCRIBE, KEYCTL_READ.
        match p.below(3) {
            0 => {
                let text = p.output(len);
                p.call(nr::__NR_keyctl, &[w(6), w(KEYRING), text, w(len)]);
            }
            1 => {
                let keys = p.output(len);
                p.call(nr::__NR_keyctl, &[w(11), w(KEYRING), keys, w(len)]);
            }
            // KEYCTL_SEARCH
            _ => {
                let (kind, name) = (p.text("user"), p.text("uzswap-callfuzz"));
                p.call(nr::__NR_keyctl, &[w(10), w(KEYRING), kind, name, w(0)]);
            }
        }
    }),
    ("perf_event_open", 2, |p| {
        // PERF_COUNT_SW_TASK_CLOCK
        let len = p.pick(&[64, 112, 136, 200]);
        let mut event = vec![0; len];
        event[0] = 1;
        event[4..8].copy_from_slice(&(len as u32).to_le_bytes());
        event[8] = 1;
        let event = p.input(&event);
        p.call(
            nr::__NR_perf_event_open,
            &[event, w(0), w(usize::MAX), w(usize::MAX), w(0)],
        );
        p.answers(Answer::Descriptor);
    }),
];

fn three(p: &mut Play, number: u32) {
    let (a, b, c) = (p.output(4), p.output(4), p.output(4));
    p.call(number, &[a, b, c]);
}
