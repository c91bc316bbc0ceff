//! The machine that has the model's devices: a thread of the launcher. It takes descriptors out of
//! the doors of processes, and is the kernel that opens queues to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use uzswap_ctl::accel::{Accel, Job, ModelCounts, REGIONS, Region};
use uzswap_iaa::resident;
use uzswap_iaa_model::device::Mode;
use uzswap_iaa_model::machine::{Errno, File, Machine, Portal, Process, Real, Submission};
use uzswap_iaa_model::memory::{Access, Memory, PageFault};
use uzswap_sys::futex;
use uzswap_sys::shared::Leases;

use super::options::Model;
use crate::group::{OpenGroup, c_path};
use crate::{Failure, describe};

/// Jobs that are taken out of a door before others are looked at.
const AT_ONCE: usize = 64;
/// How long it looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(30);
/// How long it sleeps while something is under way, and while nothing is.
const NAP: Duration = Duration::from_micros(500);
const SLEEP: Duration = Duration::from_millis(100);
/// Steps that it is less nice than the launcher, where it may: as those who serve faults.
const NICE: i32 = 10;
/// How often it looks whether devices have changed, and whether processes have ended.
const LOOK: Duration = Duration::from_millis(10);

/// The thread, which ends with this.
pub(super) struct Host {
    file: Accel,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Run `model` for the processes of `group`.
    ///
    /// # Errors
    /// What a thread or a descriptor lacks, or devices that are too many for the file.
    pub(super) fn begin(file: Accel, model: &Model, group: &OpenGroup) -> Result<Self, Failure> {
        let leases = Leases::open(&c_path(&group.path)?)
            .map_err(|e| Failure::new(format!("{}: {}", group.path.display(), describe(e))))?;
        let memory = Arc::new(Reached(file));
        let config = model.options.config();
        let machine = match model.options.threads {
            0 => Machine::inline(config, memory),
            threads => Machine::threads(config, memory, threads as usize),
        };
        let mut kernel = Kernel {
            mode: model.options.mode,
            may_map: model.options.may_map,
            churn: model.options.churn_ms.map(|ms| Duration::from_millis(ms.into())),
            file,
            machine,
            leases,
            doors: (0..REGIONS).map(|_| None).collect(),
            text: String::new(),
            looked: Instant::now(),
            churned: Instant::now(),
            away: None,
        };
        if !kernel.tell_sysfs() {
            return Err(Failure::new(format!(
                "--iaa-model {}: more devices than there is room to describe",
                model.text
            )));
        }
        file.set_open(true);
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = is_over.clone();
        let thread = std::thread::Builder::new()
            .name("uzswap-iaa".into())
            .spawn(move || {
                // Devices do not wait for cores; whoever waits for one may be in the way.
                uzswap_sys::sched::go_before_others(NICE);
                kernel.run(&flag);
            })
            .map_err(|e| Failure::new(format!("a thread for the model of devices: {e}")))?;
        Ok(Self {
            file,
            is_over,
            thread: Some(thread),
        })
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Nobody submits any more.
        self.file.set_open(false);
        self.is_over.store(true, Ordering::Release);
        if self.file.ring() {
            futex::wake_word(self.file.bell());
        }
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said so.
            let _ = thread.join();
        }
    }
}

/// What devices reach: the memory of regions.
pub(super) struct Reached(pub(super) Accel);

impl Memory for Reached {
    fn read(&self, addr: u64, into: &mut [u8]) -> Result<(), PageFault> {
        let access = Access::Read;
        let (words, at) = self.0.reach(addr, into.len()).ok_or(PageFault { addr, access })?;
        resident::copy_out(words, at, into);
        Ok(())
    }

    fn write(&self, addr: u64, from: &[u8]) -> Result<(), PageFault> {
        let access = Access::Write;
        let (words, at) = self.0.reach(addr, from.len()).ok_or(PageFault { addr, access })?;
        resident::copy_in(words, at, from);
        Ok(())
    }

    fn publish(&self, addr: u64, byte: u8) {
        if let Some((words, at)) = self.0.reach(addr, 1) {
            resident::publish(words, at, byte);
        }
    }
}

/// A work queue that a process has open.
struct Open {
    queue: (u32, u32),
    file: File,
    portal: Option<Portal>,
}

/// What a process has open.
struct Door {
    opening: u64,
    queues: Vec<Open>,
    /// What a full queue has refused, to be tried again.
    refused: Option<Job>,
}

struct Kernel {
    mode: Mode,
    may_map: bool,
    churn: Option<Duration>,
    file: Accel,
    machine: Machine<Real>,
    leases: Leases,
    /// By the process's slot.
    doors: Vec<Option<Door>>,
    /// What sysfs was told last.
    text: String,
    looked: Instant,
    /// A device that was removed, and when one was removed or added last.
    away: Option<u32>,
    churned: Instant,
}

impl Kernel {
    fn run(&mut self, is_over: &AtomicBool) {
        let mut worked = Instant::now();
        while !is_over.load(Ordering::Acquire) {
            let mut is_at_work = false;
            for slot in 0..self.file.used() {
                is_at_work |= self.serve(slot);
            }
            self.machine.poll();
            if self.looked.elapsed() >= LOOK {
                self.look();
            }
            if is_at_work {
                worked = Instant::now();
            } else if worked.elapsed() < SPIN {
                std::hint::spin_loop();
            } else {
                self.sleep(is_over);
            }
        }
        self.tell_counts();
    }

    fn sleep(&mut self, is_over: &AtomicBool) {
        let counts = self.tell_counts();
        let seen = self.file.begin_sleep();
        let has_work = (0..self.file.used())
            .filter_map(|slot| Some((slot, self.file.region(slot)?)))
            .any(|(slot, region)| region.has_job() || region.wanted() != self.opening_of(slot));
        if !has_work && !is_over.load(Ordering::Acquire) {
            let is_waiting = counts.in_flight > 0 || self.doors.iter().flatten().any(|door| door.refused.is_some());
            let time = match self.churn {
                _ if is_waiting => NAP,
                Some(_) => LOOK,
                None => SLEEP,
            };
            futex::wait_for_word(self.file.bell(), seen, time.as_nanos() as u64);
        }
        self.file.end_sleep();
    }

    fn opening_of(&self, slot: usize) -> u64 {
        self.doors[slot].as_ref().map_or(0, |door| door.opening)
    }

    /// Do what a process asks for. False: nothing.
    fn serve(&mut self, slot: usize) -> bool {
        let Some(region) = self.file.region(slot) else {
            return false;
        };
        let wanted = region.wanted();
        if wanted != self.opening_of(slot) {
            if !self.close(slot) {
                return false;
            }
            let door = self.open(wanted);
            region.open(wanted, door.queues.iter().map(|open| open.queue));
            self.doors[slot] = Some(door);
        }
        self.doors[slot]
            .as_mut()
            .is_some_and(|door| door.work(&region, self.mode))
    }

    /// Close what a process had open. False: something of it is under way, or may come still.
    fn close(&mut self, slot: usize) -> bool {
        let Some(door) = &mut self.doors[slot] else { return true };
        door.refused = None;
        door.queues.retain(|open| open.file.held() > 0);
        door.queues.is_empty()
    }

    /// Open all queues that can be.
    fn open(&self, opening: u64) -> Door {
        let process = Process(opening);
        let enabled = self.text.lines().filter_map(|line| {
            let (_, name) = line.strip_suffix("/state=enabled")?.split_once('/')?;
            let (device, queue) = name.strip_prefix("wq")?.split_once('.')?;
            Some((device.parse::<u32>().ok()?, queue.parse::<u8>().ok()?))
        });
        let queues = enabled.filter_map(|(device, queue)| {
            let file = self.machine.open(process, device, queue).ok()?;
            let portal = self.may_map.then(|| file.map(process).ok()).flatten();
            Some(Open {
                queue: (device, queue.into()),
                file,
                portal,
            })
        });
        Door {
            opening,
            queues: queues.collect(),
            refused: None,
        }
    }

    fn look(&mut self) {
        self.looked = Instant::now();
        self.come_and_go();
        // Room for all is sure: there are no more devices than at first, or a few.
        let _ = self.tell_sysfs();
        self.tell_counts();
        // A queue of one opener is others' when its process has ended.
        for slot in 0..self.file.used() {
            if self.doors[slot].is_some() && !self.leases.is_held(slot) {
                self.close(slot);
            }
        }
    }

    /// Remove a device, and add it again.
    fn come_and_go(&mut self) {
        let Some(every) = self.churn.filter(|every| self.churned.elapsed() >= *every) else {
            return;
        };
        self.churned += every;
        match self.away.take() {
            Some(device) => _ = self.machine.add_device_as(device),
            None => {
                let devices = self.machine.devices();
                let turn = self.machine.counters().accepted as usize;
                self.away = devices.get(turn % devices.len().max(1)).copied();
                self.away
                    .iter()
                    .for_each(|device| _ = self.machine.remove_device(*device));
            }
        }
    }

    /// Tell processes what has changed of the devices, but for what changes all the time.
    fn tell_sysfs(&mut self) -> bool {
        let tree = self.machine.sysfs();
        let is_told = |path: &str| {
            let name = path.rsplit('/').next().unwrap_or(path);
            !["occupancy", "clients", "errors", "cmd_status"].contains(&name) && !path.contains("/file")
        };
        let files = tree.files().filter(|(path, _)| is_told(path));
        let text: String = files.map(|(path, text)| format!("{path}={text}\n")).collect();
        if text == self.text {
            return true;
        }
        let has_room = self.file.set_sysfs(&text);
        self.text = text;
        has_room
    }

    fn tell_counts(&self) -> ModelCounts {
        let counters = self.machine.counters();
        let counts = ModelCounts {
            submitted: counters.submitted,
            refused: counters.refused,
            lost: counters.gone + counters.dropped,
            accepted: counters.accepted,
            in_flight: counters.in_flight,
            injected: self.machine.injected().iter().map(|(_, count)| count).sum(),
        };
        self.file.note_model(counts);
        counts
    }
}

impl Door {
    /// Submit what is at the door. False: nothing is.
    fn work(&mut self, region: &Region, mode: Mode) -> bool {
        let mut is_at_work = false;
        for _ in 0..AT_ONCE {
            let Some(job) = self.refused.take().or_else(|| region.take()) else {
                break;
            };
            // Another opening's is nobody's: who submitted it has been told that it is over.
            if job.opening == self.opening && !self.submit(&job, mode) {
                self.refused = Some(job);
                break;
            }
            is_at_work = true;
        }
        is_at_work
    }

    /// False: the queue is full.
    fn submit(&self, job: &Job, mode: Mode) -> bool {
        let Some(open) = self.queues.iter().find(|open| open.queue == job.queue) else {
            // A portal that is not there swallows it.
            return true;
        };
        match (&open.portal, mode) {
            (None, _) => open.file.write(Process(self.opening), &[job.descriptor]) != Err(Errno::Again),
            (Some(portal), Mode::Shared) => portal.enqcmd(&job.descriptor) == Submission::Accepted,
            (Some(portal), Mode::Dedicated) => {
                portal.movdir64b(&job.descriptor);
                true
            }
        }
    }
}
