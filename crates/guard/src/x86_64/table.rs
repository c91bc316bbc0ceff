//! What each system call reaches: a row a call, as the kernel defines them for x86-64
//! (`SYSCALL_DEFINE`, include/uapi). Calls without a row reach no memory, or are seen to by the
//! agent itself.
//!
//! Two kinds are told apart by what EFAULT leaves behind:
//! - [`Care::Hold`]: the call may have done something when it meets a page that is not there, as a
//!   read of half a buffer. Its memory is brought and held before the kernel is entered.
//! - [`Care::Retry`]: it has done nothing then. It is entered as it is. On EFAULT its memory is
//!   brought and held, and it is made again.

use linux_raw_sys::general as nr;

use crate::row::{Care, Len, NUMBERS, Row, Way, What};

const fn r#in(bytes: usize) -> What {
    What::Plain(Way::In, Len::Bytes(bytes))
}

const fn out(bytes: usize) -> What {
    What::Plain(Way::Out, Len::Bytes(bytes))
}

const fn in_of(arg: usize) -> What {
    What::Plain(Way::In, Len::Arg(arg))
}

const fn out_of(arg: usize) -> What {
    What::Plain(Way::Out, Len::Arg(arg))
}

const fn in_of_int(arg: usize) -> What {
    What::Plain(Way::In, Len::Int(arg))
}

const fn out_of_int(arg: usize) -> What {
    What::Plain(Way::Out, Len::Int(arg))
}

/// A word that says how long something else is, and is written.
const LEN: What = out(4);
const TEXT: What = What::Plain(Way::In, Len::Text);
const TIME: usize = 16;
const TIMER: usize = 32;
const SIGINFO: usize = 128;
const USAGE: usize = 144;
const STAT: usize = 144;
const STATX: usize = 256;
const STATFS: usize = 120;
const POLLFD: usize = 8;
const EPOLL_EVENT: usize = 12;
const ACTION: usize = 32;
const STACK: usize = 24;
const PAGE: usize = 4096;
/// What `prctl` and `seccomp` are asked, where they are given a filter.
const PR_SET_SECCOMP: usize = 22;
const SECCOMP_SET_MODE_FILTER: usize = 1;

const fn hold(number: u32, reaches: &'static [(usize, What)]) -> Row {
    Row {
        number: number as usize,
        care: Care::Hold,
        reaches,
    }
}

const fn retry(number: u32, reaches: &'static [(usize, What)]) -> Row {
    Row {
        number: number as usize,
        care: Care::Retry,
        reaches,
    }
}

use Len::{Arg, At, Bits, Int, Times};
use Way::{In, Out};
use What::{
    Described, Filter, Ioctl, Mask, Message, Messages, Others, Plain, Registers, SocketAnswer, SocketOption, Texts,
    Vectors, Words,
};

/// All that reach memory.
pub const ROWS: &[Row] = &[
    // Bytes in and out.
    hold(nr::__NR_read, &[(1, out_of(2))]),
    hold(nr::__NR_write, &[(1, in_of(2))]),
    hold(nr::__NR_pread64, &[(1, out_of(2))]),
    hold(nr::__NR_pwrite64, &[(1, in_of(2))]),
    hold(nr::__NR_readv, &[(1, Vectors(Out, Arg(2)))]),
    hold(nr::__NR_writev, &[(1, Vectors(In, Arg(2)))]),
    hold(nr::__NR_preadv, &[(1, Vectors(Out, Arg(2)))]),
    hold(nr::__NR_pwritev, &[(1, Vectors(In, Arg(2)))]),
    hold(nr::__NR_preadv2, &[(1, Vectors(Out, Arg(2)))]),
    hold(nr::__NR_pwritev2, &[(1, Vectors(In, Arg(2)))]),
    hold(nr::__NR_vmsplice, &[(1, Vectors(Out, Arg(2)))]),
    hold(
        nr::__NR_process_vm_readv,
        &[(1, Vectors(Out, Arg(2))), (3, Others(In, Arg(4)))],
    ),
    hold(
        nr::__NR_process_vm_writev,
        &[(1, Vectors(In, Arg(2))), (3, Others(Out, Arg(4)))],
    ),
    hold(nr::__NR_sendfile, &[(2, out(8))]),
    hold(nr::__NR_splice, &[(1, out(8)), (3, out(8))]),
    hold(nr::__NR_copy_file_range, &[(1, out(8)), (3, out(8))]),
    hold(nr::__NR_getdents, &[(1, out_of_int(2))]),
    hold(nr::__NR_getdents64, &[(1, out_of_int(2))]),
    hold(nr::__NR_getrandom, &[(0, out_of(1))]),
    // Sockets.
    hold(nr::__NR_sendto, &[(1, in_of(2)), (4, in_of_int(5))]),
    hold(nr::__NR_recvfrom, &[(1, out_of(2)), (5, LEN), (4, Plain(Out, At(5)))]),
    hold(nr::__NR_sendmsg, &[(1, Message(In))]),
    hold(nr::__NR_recvmsg, &[(1, Message(Out))]),
    hold(nr::__NR_sendmmsg, &[(1, Messages(In, Arg(2)))]),
    hold(nr::__NR_recvmmsg, &[(1, Messages(Out, Arg(2))), (4, out(TIME))]),
    hold(nr::__NR_accept, &[(2, LEN), (1, Plain(Out, At(2)))]),
    hold(nr::__NR_accept4, &[(2, LEN), (1, Plain(Out, At(2)))]),
    retry(nr::__NR_connect, &[(1, in_of_int(2))]),
    retry(nr::__NR_bind, &[(1, in_of_int(2))]),
    // They say how long an address is before they write it: made again they would write more of it
    // than there is room for.
    hold(nr::__NR_getsockname, &[(2, LEN), (1, Plain(Out, At(2)))]),
    hold(nr::__NR_getpeername, &[(2, LEN), (1, Plain(Out, At(2)))]),
    retry(nr::__NR_setsockopt, &[(3, SocketOption(Int(4)))]),
    // Some options answer once (SO_ERROR).
    hold(nr::__NR_getsockopt, &[(4, LEN), (3, SocketAnswer(At(4)))]),
    hold(nr::__NR_socketpair, &[(3, out(8))]),
    hold(nr::__NR_pipe, &[(0, out(8))]),
    hold(nr::__NR_pipe2, &[(0, out(8))]),
    // Waiting for several.
    hold(
        nr::__NR_select,
        &[
            (1, Plain(Out, Bits(0))),
            (2, Plain(Out, Bits(0))),
            (3, Plain(Out, Bits(0))),
            (4, out(TIME)),
        ],
    ),
    hold(
        nr::__NR_pselect6,
        &[
            (1, Plain(Out, Bits(0))),
            (2, Plain(Out, Bits(0))),
            (3, Plain(Out, Bits(0))),
            (4, out(TIME)),
            (5, Mask),
        ],
    ),
    hold(nr::__NR_poll, &[(0, Plain(Out, Times(1, POLLFD)))]),
    hold(
        nr::__NR_ppoll,
        &[(0, Plain(Out, Times(1, POLLFD))), (2, out(TIME)), (3, in_of(4))],
    ),
    hold(nr::__NR_epoll_wait, &[(1, Plain(Out, Times(2, EPOLL_EVENT)))]),
    hold(
        nr::__NR_epoll_pwait,
        &[(1, Plain(Out, Times(2, EPOLL_EVENT))), (4, in_of(5))],
    ),
    hold(
        nr::__NR_epoll_pwait2,
        &[(1, Plain(Out, Times(2, EPOLL_EVENT))), (3, r#in(TIME)), (4, in_of(5))],
    ),
    retry(nr::__NR_epoll_ctl, &[(3, r#in(EPOLL_EVENT))]),
    // Children.
    hold(nr::__NR_wait4, &[(1, out(4)), (3, out(USAGE))]),
    hold(nr::__NR_waitid, &[(2, out(SIGINFO)), (4, out(USAGE))]),
    retry(nr::__NR_execve, &[(0, TEXT), (1, Texts), (2, Texts)]),
    retry(nr::__NR_execveat, &[(1, TEXT), (2, Texts), (3, Texts)]),
    // Signals.
    hold(nr::__NR_rt_sigaction, &[(1, r#in(ACTION)), (2, out(ACTION))]),
    hold(nr::__NR_rt_sigprocmask, &[(1, in_of(3)), (2, out_of(3))]),
    hold(nr::__NR_rt_sigpending, &[(0, out_of(1))]),
    hold(
        nr::__NR_rt_sigtimedwait,
        &[(0, in_of(3)), (1, out(SIGINFO)), (2, r#in(TIME))],
    ),
    hold(nr::__NR_rt_sigsuspend, &[(0, in_of(1))]),
    hold(nr::__NR_rt_sigqueueinfo, &[(2, r#in(SIGINFO))]),
    hold(nr::__NR_rt_tgsigqueueinfo, &[(3, r#in(SIGINFO))]),
    hold(nr::__NR_sigaltstack, &[(0, r#in(STACK)), (1, out(STACK))]),
    retry(nr::__NR_signalfd, &[(1, in_of(2))]),
    retry(nr::__NR_signalfd4, &[(1, in_of(2))]),
    retry(nr::__NR_pidfd_send_signal, &[(2, r#in(SIGINFO))]),
    // Time.
    hold(nr::__NR_nanosleep, &[(0, r#in(TIME)), (1, out(TIME))]),
    hold(nr::__NR_clock_nanosleep, &[(2, r#in(TIME)), (3, out(TIME))]),
    hold(nr::__NR_setitimer, &[(1, r#in(TIMER)), (2, out(TIMER))]),
    hold(nr::__NR_timer_create, &[(1, r#in(64)), (2, out(4))]),
    hold(nr::__NR_timer_settime, &[(2, r#in(TIMER)), (3, out(TIMER))]),
    hold(nr::__NR_timerfd_settime, &[(2, r#in(TIMER)), (3, out(TIMER))]),
    hold(nr::__NR_adjtimex, &[(0, out(208))]),
    hold(nr::__NR_clock_adjtime, &[(1, out(208))]),
    retry(nr::__NR_getitimer, &[(1, out(TIMER))]),
    retry(nr::__NR_timer_gettime, &[(1, out(TIMER))]),
    retry(nr::__NR_timerfd_gettime, &[(1, out(TIMER))]),
    retry(nr::__NR_clock_gettime, &[(1, out(TIME))]),
    retry(nr::__NR_clock_getres, &[(1, out(TIME))]),
    retry(nr::__NR_clock_settime, &[(1, r#in(TIME))]),
    retry(nr::__NR_gettimeofday, &[(0, out(TIME)), (1, out(8))]),
    retry(nr::__NR_settimeofday, &[(0, r#in(TIME)), (1, r#in(8))]),
    retry(nr::__NR_time, &[(0, out(8))]),
    retry(nr::__NR_times, &[(0, out(32))]),
    // Words that threads wait for. A wait reads its word again whenever it wakes: it has done
    // nothing when it is refused. Of one that may be shared with another process the kernel wants a
    // page that it could write to.
    retry(nr::__NR_futex, &[(0, out(4)), (4, out(4)), (3, r#in(TIME))]),
    retry(nr::__NR_futex_wait, &[(0, out(8)), (4, r#in(TIME))]),
    retry(nr::__NR_futex_wake, &[(0, out(8))]),
    retry(nr::__NR_futex_requeue, &[(0, Words(Len::Bytes(2)))]),
    retry(nr::__NR_futex_waitv, &[(0, Words(Arg(1))), (3, r#in(TIME))]),
    retry(nr::__NR_get_robust_list, &[(1, out(8)), (2, out(8))]),
    // Messages and semaphores.
    hold(nr::__NR_msgsnd, &[(1, Plain(In, Len::ArgAnd(2, 8)))]),
    hold(nr::__NR_msgrcv, &[(1, Plain(Out, Len::ArgAnd(2, 8)))]),
    retry(nr::__NR_msgctl, &[(2, out(120))]),
    retry(nr::__NR_semop, &[(1, Plain(In, Times(2, 6)))]),
    hold(nr::__NR_semtimedop, &[(1, Plain(In, Times(2, 6))), (3, r#in(TIME))]),
    // A value each of all semaphores of a set (SEMMSL).
    retry(nr::__NR_semctl, &[(3, out(2 * 32_000))]),
    retry(nr::__NR_shmctl, &[(2, out(112))]),
    retry(nr::__NR_mq_open, &[(0, TEXT), (3, r#in(64))]),
    retry(nr::__NR_mq_unlink, &[(0, TEXT)]),
    hold(nr::__NR_mq_timedsend, &[(1, in_of(2)), (4, r#in(TIME))]),
    hold(
        nr::__NR_mq_timedreceive,
        &[(1, out_of(2)), (3, out(4)), (4, r#in(TIME))],
    ),
    retry(nr::__NR_mq_notify, &[(1, r#in(64))]),
    hold(nr::__NR_mq_getsetattr, &[(1, r#in(64)), (2, out(64))]),
    // Devices.
    hold(nr::__NR_ioctl, &[(2, Ioctl)]),
    hold(nr::__NR_fcntl, &[(2, out(32))]),
    // Files by name.
    retry(nr::__NR_open, &[(0, TEXT)]),
    retry(nr::__NR_openat, &[(1, TEXT)]),
    retry(nr::__NR_openat2, &[(1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_creat, &[(0, TEXT)]),
    retry(nr::__NR_stat, &[(0, TEXT), (1, out(STAT))]),
    retry(nr::__NR_lstat, &[(0, TEXT), (1, out(STAT))]),
    retry(nr::__NR_fstat, &[(1, out(STAT))]),
    retry(nr::__NR_newfstatat, &[(1, TEXT), (2, out(STAT))]),
    retry(nr::__NR_statx, &[(1, TEXT), (4, out(STATX))]),
    retry(nr::__NR_statfs, &[(0, TEXT), (1, out(STATFS))]),
    retry(nr::__NR_fstatfs, &[(1, out(STATFS))]),
    retry(nr::__NR_ustat, &[(1, out(32))]),
    retry(nr::__NR_access, &[(0, TEXT)]),
    retry(nr::__NR_faccessat, &[(1, TEXT)]),
    retry(nr::__NR_faccessat2, &[(1, TEXT)]),
    retry(nr::__NR_readlink, &[(0, TEXT), (1, out_of_int(2))]),
    retry(nr::__NR_readlinkat, &[(1, TEXT), (2, out_of_int(3))]),
    retry(nr::__NR_getcwd, &[(0, out_of(1))]),
    retry(nr::__NR_chdir, &[(0, TEXT)]),
    retry(nr::__NR_chroot, &[(0, TEXT)]),
    retry(nr::__NR_rename, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_renameat, &[(1, TEXT), (3, TEXT)]),
    retry(nr::__NR_renameat2, &[(1, TEXT), (3, TEXT)]),
    retry(nr::__NR_mkdir, &[(0, TEXT)]),
    retry(nr::__NR_mkdirat, &[(1, TEXT)]),
    retry(nr::__NR_rmdir, &[(0, TEXT)]),
    retry(nr::__NR_mknod, &[(0, TEXT)]),
    retry(nr::__NR_mknodat, &[(1, TEXT)]),
    retry(nr::__NR_link, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_linkat, &[(1, TEXT), (3, TEXT)]),
    retry(nr::__NR_symlink, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_symlinkat, &[(0, TEXT), (2, TEXT)]),
    retry(nr::__NR_unlink, &[(0, TEXT)]),
    retry(nr::__NR_unlinkat, &[(1, TEXT)]),
    retry(nr::__NR_chmod, &[(0, TEXT)]),
    retry(nr::__NR_fchmodat, &[(1, TEXT)]),
    retry(nr::__NR_fchmodat2, &[(1, TEXT)]),
    retry(nr::__NR_chown, &[(0, TEXT)]),
    retry(nr::__NR_lchown, &[(0, TEXT)]),
    retry(nr::__NR_fchownat, &[(1, TEXT)]),
    retry(nr::__NR_truncate, &[(0, TEXT)]),
    retry(nr::__NR_utime, &[(0, TEXT), (1, r#in(16))]),
    retry(nr::__NR_utimes, &[(0, TEXT), (1, r#in(32))]),
    retry(nr::__NR_futimesat, &[(1, TEXT), (2, r#in(32))]),
    retry(nr::__NR_utimensat, &[(1, TEXT), (2, r#in(32))]),
    retry(nr::__NR_uselib, &[(0, TEXT)]),
    retry(nr::__NR_acct, &[(0, TEXT)]),
    retry(nr::__NR_setxattr, &[(0, TEXT), (1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_lsetxattr, &[(0, TEXT), (1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_fsetxattr, &[(1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_getxattr, &[(0, TEXT), (1, TEXT), (2, out_of(3))]),
    retry(nr::__NR_lgetxattr, &[(0, TEXT), (1, TEXT), (2, out_of(3))]),
    retry(nr::__NR_fgetxattr, &[(1, TEXT), (2, out_of(3))]),
    retry(nr::__NR_listxattr, &[(0, TEXT), (1, out_of(2))]),
    retry(nr::__NR_llistxattr, &[(0, TEXT), (1, out_of(2))]),
    retry(nr::__NR_flistxattr, &[(1, out_of(2))]),
    retry(nr::__NR_setxattrat, &[(1, TEXT), (3, TEXT), (4, Described(In))]),
    retry(nr::__NR_getxattrat, &[(1, TEXT), (3, TEXT), (4, Described(Out))]),
    retry(nr::__NR_listxattrat, &[(1, TEXT), (3, out_of(4))]),
    retry(nr::__NR_removexattrat, &[(1, TEXT), (3, TEXT)]),
    retry(nr::__NR_file_getattr, &[(1, TEXT), (2, out_of(3))]),
    retry(nr::__NR_file_setattr, &[(1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_cachestat, &[(1, r#in(16)), (2, out(40))]),
    retry(nr::__NR_removexattr, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_lremovexattr, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_fremovexattr, &[(1, TEXT)]),
    retry(nr::__NR_inotify_add_watch, &[(1, TEXT)]),
    retry(nr::__NR_fanotify_mark, &[(4, TEXT)]),
    retry(nr::__NR_name_to_handle_at, &[(1, TEXT), (2, out(136)), (3, out(8))]),
    retry(nr::__NR_open_by_handle_at, &[(1, r#in(136))]),
    // Of its options the kernel takes what it can read, up to a page that is not there.
    hold(nr::__NR_mount, &[(0, TEXT), (1, TEXT), (2, TEXT), (4, TEXT)]),
    retry(nr::__NR_umount2, &[(0, TEXT)]),
    retry(nr::__NR_pivot_root, &[(0, TEXT), (1, TEXT)]),
    retry(nr::__NR_swapon, &[(0, TEXT)]),
    retry(nr::__NR_swapoff, &[(0, TEXT)]),
    retry(nr::__NR_quotactl, &[(1, TEXT), (3, out(112))]),
    retry(nr::__NR_quotactl_fd, &[(3, out(112))]),
    retry(
        nr::__NR_statmount,
        &[(0, r#in(4)), (0, Plain(In, At(0))), (1, out_of(2))],
    ),
    retry(
        nr::__NR_listmount,
        &[(0, r#in(4)), (0, Plain(In, At(0))), (1, Plain(Out, Times(2, 8)))],
    ),
    retry(nr::__NR_sysfs, &[(1, TEXT), (2, out(PAGE))]),
    retry(nr::__NR_open_tree, &[(1, TEXT)]),
    retry(nr::__NR_open_tree_attr, &[(1, TEXT), (3, in_of(4))]),
    retry(nr::__NR_move_mount, &[(1, TEXT), (3, TEXT)]),
    retry(nr::__NR_fsopen, &[(0, TEXT)]),
    retry(nr::__NR_fsconfig, &[(2, TEXT), (3, TEXT)]),
    retry(nr::__NR_fspick, &[(1, TEXT)]),
    retry(nr::__NR_mount_setattr, &[(1, TEXT), (3, in_of(4))]),
    retry(nr::__NR_memfd_create, &[(0, TEXT)]),
    // The process.
    retry(nr::__NR_uname, &[(0, out(390))]),
    retry(nr::__NR_sysinfo, &[(0, out(112))]),
    retry(nr::__NR_getrusage, &[(1, out(USAGE))]),
    retry(nr::__NR_getrlimit, &[(1, out(16))]),
    retry(nr::__NR_setrlimit, &[(1, r#in(16))]),
    hold(nr::__NR_prlimit64, &[(2, r#in(16)), (3, out(16))]),
    retry(nr::__NR_getgroups, &[(1, Plain(Out, Times(0, 4)))]),
    retry(nr::__NR_setgroups, &[(1, Plain(In, Times(0, 4)))]),
    retry(nr::__NR_getresuid, &[(0, out(4)), (1, out(4)), (2, out(4))]),
    retry(nr::__NR_getresgid, &[(0, out(4)), (1, out(4)), (2, out(4))]),
    retry(nr::__NR_capget, &[(0, out(8)), (1, out(24))]),
    retry(nr::__NR_capset, &[(0, out(8)), (1, r#in(24))]),
    retry(nr::__NR_sched_setparam, &[(1, r#in(4))]),
    retry(nr::__NR_sched_getparam, &[(1, out(4))]),
    retry(nr::__NR_sched_setscheduler, &[(2, r#in(4))]),
    retry(nr::__NR_sched_rr_get_interval, &[(1, out(TIME))]),
    retry(nr::__NR_sched_setaffinity, &[(2, in_of_int(1))]),
    retry(nr::__NR_sched_getaffinity, &[(2, out_of_int(1))]),
    // The size is written where it is too big.
    retry(nr::__NR_sched_setattr, &[(1, LEN), (1, Plain(Out, At(1)))]),
    retry(nr::__NR_sched_getattr, &[(1, out_of(2))]),
    retry(nr::__NR_getcpu, &[(0, out(4)), (1, out(4))]),
    retry(nr::__NR_sethostname, &[(0, in_of_int(1))]),
    retry(nr::__NR_setdomainname, &[(0, in_of_int(1))]),
    hold(nr::__NR_syslog, &[(1, out_of_int(2))]),
    retry(nr::__NR_personality, &[]),
    retry(
        nr::__NR_prctl,
        &[
            // PR_GET_AUXV writes as much as a vector has, some 30 pairs.
            (1, out(PAGE)),
            (2, out(128)),
            (3, out(8)),
            (4, TEXT),
            (2, Filter(PR_SET_SECCOMP)),
        ],
    ),
    retry(nr::__NR_arch_prctl, &[(1, out(8))]),
    retry(nr::__NR_modify_ldt, &[(1, out_of(2))]),
    retry(nr::__NR_seccomp, &[(2, out(16)), (2, Filter(SECCOMP_SET_MODE_FILTER))]),
    retry(nr::__NR_bpf, &[(1, out_of(2))]),
    // It says how long it is, a page at most.
    retry(nr::__NR_perf_event_open, &[(0, out(PAGE))]),
    retry(nr::__NR_ptrace, &[(2, r#in(16)), (3, out(512)), (3, Registers)]),
    // KCMP_EPOLL_TFD.
    retry(nr::__NR_kcmp, &[(4, r#in(16))]),
    retry(nr::__NR_init_module, &[(0, in_of(1)), (2, TEXT)]),
    retry(nr::__NR_finit_module, &[(1, TEXT)]),
    retry(nr::__NR_delete_module, &[(0, TEXT)]),
    retry(nr::__NR_kexec_load, &[(2, Plain(In, Times(1, 32)))]),
    retry(nr::__NR_kexec_file_load, &[(3, in_of(2))]),
    retry(nr::__NR_reboot, &[(3, TEXT)]),
    retry(nr::__NR_add_key, &[(0, TEXT), (1, TEXT), (2, in_of(3))]),
    retry(nr::__NR_request_key, &[(0, TEXT), (1, TEXT), (2, TEXT)]),
    retry(
        nr::__NR_keyctl,
        &[(1, TEXT), (2, out_of(3)), (2, TEXT), (3, TEXT), (4, TEXT)],
    ),
    // As getsockname.
    hold(nr::__NR_lsm_get_self_attr, &[(2, LEN), (1, Plain(Out, At(2)))]),
    retry(nr::__NR_lsm_set_self_attr, &[(1, in_of(2))]),
    hold(nr::__NR_lsm_list_modules, &[(1, LEN), (0, Plain(Out, At(1)))]),
    retry(nr::__NR_landlock_create_ruleset, &[(0, in_of(1))]),
    retry(nr::__NR_landlock_add_rule, &[(2, r#in(16))]),
    // Memory.
    hold(nr::__NR_mlock, &[(0, out_of(1))]),
    hold(nr::__NR_mlock2, &[(0, out_of(1))]),
    retry(nr::__NR_mincore, &[(2, Plain(Out, Len::Pages(1)))]),
    retry(nr::__NR_mbind, &[(3, Plain(In, Bits(4)))]),
    retry(nr::__NR_set_mempolicy, &[(1, Plain(In, Bits(2)))]),
    retry(
        nr::__NR_get_mempolicy,
        &[(0, out(4)), (1, Plain(Out, Bits(2))), (3, r#in(1))],
    ),
    retry(
        nr::__NR_migrate_pages,
        &[(2, Plain(In, Bits(1))), (3, Plain(In, Bits(1)))],
    ),
    retry(
        nr::__NR_move_pages,
        &[
            (2, Plain(In, Times(1, 8))),
            (3, Plain(In, Times(1, 4))),
            (4, Plain(Out, Times(1, 4))),
        ],
    ),
    retry(nr::__NR_process_madvise, &[(1, Plain(In, Times(2, 16)))]),
    retry(nr::__NR_rseq, &[(0, out(32))]),
];

/// The row of each call, by its number.
pub static BY_NUMBER: [Option<&Row>; NUMBERS] = {
    let mut rows: [Option<&Row>; NUMBERS] = [None; NUMBERS];
    let mut i = 0;
    while i < ROWS.len() {
        assert!(rows[ROWS[i].number].is_none(), "one row a call");
        rows[ROWS[i].number] = Some(&ROWS[i]);
        i += 1;
    }
    rows
};
