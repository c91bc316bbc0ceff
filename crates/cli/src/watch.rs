//! What has to be looked after as long as anybody of a group lives: descriptors that outlive their
//! processes (`uzswap_sys::keep`), the agent where it is a file in memory, the group's name. The
//! launcher does it while CMD runs. What has left CMD behind by then, a daemon, is looked after by
//! a copy of the launcher in the background, so that the launcher can end with CMD as CMD would.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use uzswap_ctl::{ENV_GROUP, PROCESSES};
use uzswap_sys::keep::Keeper;
use uzswap_sys::thread::pid;
use uzswap_sys::{cut_short, launch};

use crate::accel::Devices;
use crate::agent::{self, Library};
use crate::census::Census;
use crate::group::OpenGroup;
use crate::injector::Injector;
use crate::output::warn_line;
use crate::remote::Remote;
use crate::report::{ReportOptions, Timeline};
use crate::{keeper, log};

/// How soon, and how often at least, the copy in the background looks whether anybody is left.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LAST_LOOK: Duration = Duration::from_millis(250);

/// A group that is looked after.
pub(crate) struct Watch {
    pub(crate) group: OpenGroup,
    library: Library,
    /// Ours for temporary files, locked: cleaners of what is old pass over it.
    directory: Option<File>,
    keeper: Option<Keeper>,
    census: Census,
    devices: Option<Devices>,
    injector: Injector,
    /// For a report.
    timeline: Option<Timeline>,
    /// Where cold segments of swap files go.
    remote: Option<Remote>,
}

impl Watch {
    /// Look after `group`, whose programs load `library`.
    pub(crate) fn begin(group: OpenGroup, library: Library, devices: Option<Devices>, options: &ReportOptions) -> Self {
        let keeper = keeper::bind(&group.path)
            .inspect_err(|failure| {
                if !options.quiet {
                    let line = &failure.0;
                    warn_line!(
                        "uzswap: what a process is writing when it is killed may end in zeros: {line}; set TMPDIR to a short path on a disk"
                    );
                }
            })
            .ok();
        let census = Census::new(&group, options.quiet);
        let injector = Injector::new(library.path(), &group.path);
        Self {
            injector,
            group,
            library,
            directory: agent::lock_runtime_dir(),
            keeper,
            census,
            devices,
            timeline: options.report.is_some().then(Timeline::begin),
            remote: None,
        }
    }

    /// With a mover, which is to have ended when the group has.
    pub(crate) fn with_remote(self, remote: Option<Remote>) -> Self {
        Self { remote, ..self }
    }

    /// What programs of the group load.
    pub(crate) fn library(&self) -> &std::path::Path {
        self.library.path()
    }

    /// Have room for the descriptors of a whole group, which children started from now on inherit.
    pub(crate) fn make_room(&self) {
        Keeper::make_room(PROCESSES as u64);
    }

    /// Sleep until something happens, to `also` perhaps, for `time` at most, and do what there is
    /// to do.
    pub(crate) fn step(&mut self, also: Option<BorrowedFd<'_>>, time: Option<Duration>) {
        let looks = self.timeline.iter().map(Timeline::due_in);
        let until = looks.fold(self.census.due_in(), Duration::min);
        let time = Some(time.unwrap_or(until).min(until).as_nanos() as u64);
        let is_done = self
            .keeper
            .as_mut()
            .is_some_and(|keeper| keeper.step(also, time).is_ok());
        if !is_done {
            self.keeper = None;
            sleep(also, time);
        }
        for line in self.keeper.iter_mut().flat_map(Keeper::lines) {
            warn_line!("{line}");
        }
        let asks = self.keeper.as_mut().map(Keeper::asks).unwrap_or_default();
        asks.into_iter().for_each(|ask| self.injector.attend(ask));
        self.injector
            .take_given()
            .into_iter()
            .for_each(|pid| self.census.note_member(pid));
        self.census.step(&self.group);
        if let Some(timeline) = &mut self.timeline {
            timeline.step(&self.group);
        }
    }

    /// CMD has been started.
    pub(crate) fn follow(&mut self, cmd: i32) {
        self.census.begin(cmd);
        cut_short::name_program(Some(cmd));
    }

    /// Look once more at who belongs to the group, for what is told of it afterwards.
    pub(crate) fn look_once_more(&mut self) {
        self.census.look_once_more(&self.group);
        if let Some(timeline) = &mut self.timeline {
            timeline.end(&self.group);
        }
    }

    pub(crate) fn census(&self) -> &Census {
        &self.census
    }

    /// What was seen over time, once.
    pub(crate) fn take_timeline(&mut self) -> Option<Timeline> {
        self.timeline.take()
    }

    /// Whether nobody of the group lives. `cmd` has ended.
    pub(crate) fn is_over(&self, cmd: i32) -> bool {
        let is_outlived = self.keeper.as_ref().is_some_and(Keeper::is_outlived);
        // In this order: who is seen to is in the census next.
        !self.injector.is_busy()
            && !self.group.has_members()
            && !is_outlived
            && !self.is_entered(cmd)
            && !self.census.has_members()
            && !self.census.is_any_between_programs()
    }

    /// Whether a process that began after `cmd` is in the group by its environment: one that has
    /// just been loaded, whose agent does not lock its membership yet, or one without an agent.
    fn is_entered(&self, cmd: i32) -> bool {
        // The last process id that was given out, at its end.
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let newest = load.split_whitespace().last().and_then(|pid| pid.parse::<i32>().ok());
        if newest == Some(cmd) {
            return false;
        }
        // Process ids begin again behind the highest.
        let is_newer = |pid: &i32| *pid > cmd || newest.is_none_or(|newest| newest < cmd);
        let mine = [ENV_GROUP.as_bytes(), b"=", self.group.path.as_os_str().as_bytes()].concat();
        let is_mine = |pid: i32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mine)
        };
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return false;
        };
        processes
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|process| is_newer(process) && *process != pid())
            .any(is_mine)
    }

    /// CMD has ended. Remove the group, or leave a copy of this process behind that does so when
    /// the last of the group has gone.
    pub(crate) fn end(mut self, cmd: i32) {
        // Whether its memory has outlived it.
        self.step(None, Some(Duration::ZERO));
        self.injector.finish();
        self.injector
            .take_given()
            .into_iter()
            .for_each(|pid| self.census.note_member(pid));
        if self.is_over(cmd) {
            self.census.end();
            self.group.remove_files();
            return self.remote.into_iter().for_each(Remote::finish);
        }
        // With the first process of its namespace all others end.
        if pid() == 1 {
            return;
        }
        self.census.close_files();
        // Threads do not go with it.
        self.devices.iter_mut().for_each(Devices::end);
        let keep: Vec<_> = self.descriptors().map(launch::number).collect();
        if launch::fork_to_background(&keep) == Ok(true) {
            self.stay(cmd);
            // Nothing of the launcher's is to be done once more.
            std::process::exit(0);
        }
    }

    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let kept = self.keeper.iter().flat_map(Keeper::descriptors);
        kept.chain(self.library.memory().map(AsFd::as_fd))
            .chain([self.group.leases.as_fd()])
            .chain(self.directory.as_ref().map(AsFd::as_fd))
            .chain(log::descriptor())
    }

    /// The copy in the background.
    fn stay(&mut self, cmd: i32) {
        log::go_to_background();
        let _ = self.library.link();
        self.census.take_over();
        let mut time = FIRST_LOOK;
        // Where the file is gone, somebody took the group for one that is over.
        while !self.is_over(cmd) && self.group.path.exists() {
            self.step(None, Some(time));
            time = (time * 2).min(LAST_LOOK);
        }
        self.census.end();
        self.group.remove_files();
    }
}

/// Sleep until `also` can be read, for so many nanoseconds at most. Whether it can.
pub(crate) fn sleep(also: Option<BorrowedFd<'_>>, time: Option<u64>) -> bool {
    let mut polled: Vec<_> = also
        .as_ref()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .into_iter()
        .collect();
    let time = time.map(|ns| rustix::event::Timespec {
        tv_sec: (ns / 1_000_000_000) as _,
        tv_nsec: (ns % 1_000_000_000) as _,
    });
    poll(&mut polled, time.as_ref()).is_ok_and(|ready| ready > 0)
}
