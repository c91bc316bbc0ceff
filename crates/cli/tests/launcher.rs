//! The launcher is not to be noticed, but for the limit, and the limit is not to be escaped without
//! a word.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{UZSWAP, can_manage, compile, temp};

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// What stands before CMD: nothing, or the launcher.
fn both() -> [Vec<&'static str>; 2] {
    [vec![], vec![UZSWAP, "run", "--quiet", "--memory-max", "24M", "--"]]
}

/// `within CMD`, where the words of `within` stand before everything.
fn output(words: &[&[&str]]) -> Output {
    let words: Vec<&str> = words.concat();
    Command::new(words[0]).args(&words[1..]).output().expect(words[0])
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The same without and with the launcher.
fn assert_same(within: &[&str], cmd: &[&str]) -> Output {
    let [twin, managed] = both().map(|launcher| output(&[within, &launcher, cmd]));
    assert_eq!(stdout(&managed), stdout(&twin), "{cmd:?}: {}", stderr(&managed));
    assert_eq!(
        managed.status.code(),
        twin.status.code(),
        "{cmd:?}: {}",
        stderr(&managed)
    );
    managed
}

/// A shell script around a command, which is its `"$@"`.
fn around(script: &str) -> [&str; 4] {
    ["sh", "-c", script, "sh"]
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id");
    stdout(&id).trim() == "0"
}

/// A program that keeps `megabytes` and says what its peak was, in bytes.
fn peak(output: &Output) -> u64 {
    let text = stdout(output);
    let number = text.trim().strip_prefix("peak ").and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("no peak: {text}{}", stderr(output)))
}

const DATA: &str = "64";
/// What has [`DATA`] under 24M, with what a loaded machine lets through for moments.
const PEAK_MAX: u64 = 52 << 20;

#[test]
fn signal_dispositions_and_the_mask_reach_cmd() {
    if !can_manage() {
        return;
    }
    // Where threads serve their own faults /proc shows the handlers for that as well.
    let show = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"];
    for script in [
        "exec \"$@\"",
        "trap '' PIPE; exec \"$@\"",
        "trap '' CHLD HUP; exec \"$@\"",
        "exec env --block-signal=USR1 --block-signal=TERM \"$@\"",
    ] {
        assert_same(&around(script), &show);
    }
}

/// With its children ignored, a launcher would never learn of CMD's end.
#[test]
fn the_status_is_cmds_where_children_are_ignored() {
    if can_manage() {
        assert_same(&around("trap '' CHLD; exec \"$@\""), &["sh", "-c", "exit 7"]);
    }
}

#[test]
fn standard_descriptors_that_are_closed_stay_closed() {
    if !can_manage() {
        return;
    }
    let show = "for fd in 0 1 2; do test -e /proc/$$/fd/$fd && echo $fd >&9; done; true";
    for redirections in ["<&-", "2>&-", "<&- 2>&-", ">&-", "<&- >&- 2>&-"] {
        let script = format!("exec 9>&1; exec \"$@\" {redirections}");
        assert_same(&around(&script), &["sh", "-c", show]);
    }
}

/// The program has put a file of its own where stderr was.
#[test]
fn nothing_is_said_into_a_file_that_has_the_number_of_stderr() {
    if !can_manage() {
        return;
    }
    let (program, file) = (compile("late_limit"), temp("late_limit.data"));
    let cmd = [program.to_str().unwrap(), file.to_str().unwrap()];
    let run = output(&[&both()[1], &cmd]);
    let written = std::fs::read(&file).expect("the file");
    assert_eq!(written, b"", "{}", String::from_utf8_lossy(&written));
    // It was ended, and the launcher says why.
    assert_eq!(
        (run.status.code(), stdout(&run).as_str()),
        (Some(125), ""),
        "{}",
        stderr(&run)
    );
    assert!(stderr(&run).contains("cannot be managed"), "{}", stderr(&run));
    let allowed = [
        UZSWAP,
        "run",
        "--quiet",
        "--allow-unmanaged",
        "--memory-max",
        "24M",
        "--",
    ];
    let run = output(&[&allowed, &cmd]);
    assert_eq!((run.status.code(), stdout(&run).as_str()), (Some(0), "went on\n"));
    assert!(stderr(&run).contains("runs on unmanaged"), "{}", stderr(&run));
    for path in [program, file] {
        std::fs::remove_file(path).expect("made above");
    }
}

#[test]
fn a_report_that_cannot_be_written_leaves_the_status() {
    if !can_manage() {
        return;
    }
    let run = output(&[&[
        UZSWAP,
        "run",
        "--quiet",
        "--stat-json",
        "/dev/full",
        "--",
        "sh",
        "-c",
        "exit 3",
    ]]);
    assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
    assert!(
        stderr(&run).contains("no counters: --stat-json /dev/full: No space left"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn nobody_panics_when_the_reader_has_gone() {
    for args in [
        &["doctor"][..],
        &["list"],
        &["top", "-n", "1"],
        &["--help"],
        &["run", "--help"],
    ] {
        for script in [
            "exec 3>&1; { \"$@\" 2>&3; echo status $? >&3; } | true",
            "exec 3>&1; { sleep 0.2; \"$@\" 2>&3; echo status $? >&3; } | true",
            "trap '' PIPE; exec 3>&1; { sleep 0.2; \"$@\" 2>&3; echo status $? >&3; } | true",
        ] {
            let run = output(&[&around(script), &[UZSWAP], args]);
            let text = stdout(&run);
            assert!(!text.contains("panicked"), "{args:?}: {text}");
            assert!(
                !text.contains("status 101") && !text.contains("status 134"),
                "{args:?}: {text}"
            );
        }
    }
    if can_manage() {
        let script = "exec 3>&1; { sleep 0.2; \"$@\" 2>&1 3>&-; echo status $? >&3; } | true";
        let run = output(&[
            &around(script),
            &[UZSWAP, "run", "--summary", "--", "sh", "-c", "exit 5"],
        ]);
        assert_eq!(stdout(&run), "status 5\n");
    }
}

#[test]
fn the_first_process_of_a_namespace_reaps_orphans() {
    let within = ["unshare", "-pf", "--mount-proc"];
    if !can_manage() || !output(&[&within, &["true"]]).status.success() {
        return;
    }
    // Until nobody is called like the orphans, which a zombie is still.
    let script = "sh -c 'sleep 0.1 & sleep 0.1 &'
                  while cat /proc/[0-9]*/comm 2>/dev/null | grep -q '^sleep$'; do :; done; echo reaped; exit 4";
    let run = output(&[&within, &both()[1], &["sh", "-c", script]]);
    assert_eq!(
        (stdout(&run).as_str(), run.status.code()),
        ("reaped\n", Some(4)),
        "{}",
        stderr(&run)
    );
}

/// A shell traps no signal that it was started with ignored, as what a shell starts in the
/// background is.
const DEFAULT_SIGNALS: [&str; 2] = ["env", "--default-signal"];

#[test]
fn signals_that_are_sent_to_the_launcher_reach_cmd_once() {
    if !can_manage() {
        return;
    }
    let signals = [
        "HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", "ALRM", "PWR", "RTMIN", "TERM",
    ];
    let traps: String = signals.map(|name| format!("trap 'echo {name}' {name}; ")).concat();
    let script = format!("{traps} trap 'echo TERM; exit 9' TERM; echo ready; while :; do sleep 0.02; done");
    for launcher in both() {
        let words = [&DEFAULT_SIGNALS[..], &launcher, &["sh", "-c", &script]].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .stdout(Stdio::piped())
            .spawn()
            .expect("starting it");
        let mut said = BufReader::new(child.stdout.take().expect("its stdout"));
        let mut line = String::new();
        said.read_line(&mut line).expect("ready");
        for name in signals {
            let kill = Command::new("sh")
                .args(["-c", &format!("kill -{name} {}", child.id())])
                .status();
            assert!(kill.expect("kill").success());
            line.clear();
            said.read_line(&mut line).expect("what it says");
            assert_eq!(line.trim(), name);
        }
        let mut rest = String::new();
        said.read_to_string(&mut rest).expect("its end");
        assert_eq!((rest.as_str(), child.wait().expect("its end").code()), ("", Some(9)));
    }
}

/// Until the group is gone, or a minute has passed.
fn wait_until_gone(group: &str) {
    let deadline = Instant::now() + PATIENCE;
    while stdout(&output(&[&[UZSWAP, "list"]])).contains(group) {
        assert!(Instant::now() < deadline, "{group} stays");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The status is CMD's, at once, and what CMD leaves behind is managed still, with all that it
/// starts.
#[test]
fn what_outlives_cmd_is_managed_still() {
    if !can_manage() {
        return;
    }
    let group = format!("outlives-{}", std::process::id());
    let (go, peak_file) = (temp("outlives.go"), temp("outlives.peak"));
    let daemon = format!(
        "(until [ -e {0} ]; do sleep 0.02; done; {UZSWAP} demo-child {DATA} >{1}.new; mv {1}.new {1}) </dev/null >/dev/null 2>&1 & exit 5",
        go.display(),
        peak_file.display()
    );
    let options = ["--quiet", "--name", &group, "--memory-max", "24M", "--"];
    // All that the caller reads from is closed.
    let run = output(&[&[UZSWAP, "run"], &options, &["sh", "-c", &daemon]]);
    assert_eq!(run.status.code(), Some(5), "{}", stderr(&run));
    assert!(
        stdout(&output(&[&[UZSWAP, "list"]])).contains(&group),
        "its name is gone"
    );
    let again = output(&[&[UZSWAP, "run"], &options, &["true"]]);
    assert_eq!(again.status.code(), Some(125));
    std::fs::write(&go, "").expect("letting it go");
    let deadline = Instant::now() + PATIENCE;
    while !peak_file.exists() {
        assert!(Instant::now() < deadline, "the daemon never came to its end");
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = std::fs::read_to_string(&peak_file).expect("its peak");
    let peak: u64 = said
        .trim()
        .strip_prefix("peak ")
        .and_then(|n| n.parse().ok())
        .expect(&said);
    assert!(peak < PEAK_MAX, "{peak}");
    wait_until_gone(&group);
    for path in [go, peak_file] {
        std::fs::remove_file(path).expect("made above");
    }
}

/// The first process of a namespace has the number of the machine's first one, whose children are
/// none of the group's.
#[test]
fn the_machine_is_no_member_of_a_group_with_a_namespace() {
    let within = ["unshare", "-pf", "--mount-proc"];
    if !can_manage() || !output(&[&within, &["true"]]).status.success() {
        return;
    }
    let group = format!("namespace-{}", std::process::id());
    let launcher = [UZSWAP, "run", "--quiet", "--name", &group, "--memory-max", "24M", "--"];
    let run = output(&[&launcher, &within, &[UZSWAP, "demo-child", DATA]]);
    assert!(peak(&run) < PEAK_MAX, "{}", stderr(&run));
    wait_until_gone(&group);
}

/// A process that is between two programs is in the group.
#[test]
fn what_is_just_being_started_when_cmd_ends_is_managed() {
    if !can_manage() {
        return;
    }
    for n in 0..30 {
        let file = temp("just-started");
        let script = format!(
            "{{ exec cat /proc/self/maps >{} 2>&1 </dev/null; }} & exit 0",
            file.display()
        );
        let group = format!("just-{}-{n}", std::process::id());
        let run = output(&[&[UZSWAP, "run", "--quiet", "--name", &group, "--", "sh", "-c", &script]]);
        assert_eq!(run.status.code(), Some(0), "{}", stderr(&run));
        wait_until_gone(&group);
        let maps = std::fs::read_to_string(&file).expect("its mappings");
        assert!(maps.contains(&format!("{group}.group")), "{maps}");
        std::fs::remove_file(file).expect("written");
    }
}

/// Docker's `--read-only --tmpfs /tmp`.
#[test]
fn where_nothing_may_be_executed_the_agent_comes_from_memory() {
    let script =
        "for dir in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o noexec none $dir || exit 77; done; exec \"$@\"";
    let within = [&["unshare", "-m"][..], &around(script)].concat();
    if !can_manage() || Path::new(UZSWAP).starts_with("/tmp") || !output(&[&within, &["true"]]).status.success() {
        return;
    }
    let options = ["run", "--quiet", "--swap", "none", "--memory-max", "24M", "--"];
    let json = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("noexec-{}.json", std::process::id()));
    let report = ["--stat-json", json.to_str().expect("a plain path")];
    let demo = [UZSWAP, "demo-child", "28"];
    let run = output(&[&within, &[UZSWAP], &options[..1], &report, &options[1..], &demo]);
    let counters = std::fs::read_to_string(&json).unwrap_or_default();
    let counters: serde_json::Value = serde_json::from_str(&counters).unwrap_or_default();
    assert!(
        peak(&run) > 0 && counters["zswpout"].as_u64() > Some(0),
        "{}{counters:#}",
        stderr(&run)
    );
    std::fs::remove_file(json).expect("written");
    // Also when CMD has ended.
    let later = "(sleep 0.3; cat /proc/self/maps) 2>&1 & exit 0";
    let run = output(&[&within, &[UZSWAP], &options, &["sh", "-c", later]]);
    assert!(
        stdout(&run).contains("uzswap-agent"),
        "{}{}",
        stdout(&run),
        stderr(&run)
    );
}

#[test]
fn text_that_must_not_change_is_replaced() {
    if !can_manage() {
        return;
    }
    let forbids = compile("forbids");
    for what in ["mdwe", "text"] {
        let within = [forbids.to_str().unwrap(), what];
        if output(&[&within, &["true"]]).status.code() == Some(99) {
            continue;
        }
        let run = output(&[&within, &both()[1], &[UZSWAP, "demo-child", DATA]]);
        let peak = peak(&run);
        assert!(peak < PEAK_MAX, "{what}: {peak}: {}", stderr(&run));
    }
    std::fs::remove_file(forbids).expect("compiled above");
}

/// A user who may open userfaultfd, and have four processes and threads.
#[test]
fn a_limit_of_threads_is_refused_by_name() {
    const CAPABILITIES: &str = "+sys_ptrace,+dac_override";
    let user = [
        "setpriv",
        "--reuid",
        "61234",
        "--regid",
        "61234",
        "--clear-groups",
        "--inh-caps",
        CAPABILITIES,
    ];
    let within = [&user[..], &["--ambient-caps", CAPABILITIES, "prlimit", "--nproc=4"]].concat();
    if !can_manage() || !output(&[&within, &[UZSWAP, "--version"]]).status.success() {
        return;
    }
    let cmd = [UZSWAP, "demo-child", "16"];
    let run = output(&[&within, &both()[1], &cmd]);
    assert_eq!(run.status.code(), Some(125), "{}{}", stdout(&run), stderr(&run));
    assert!(stderr(&run).contains("limit of threads"), "{}", stderr(&run));
    let allowed = [UZSWAP, "run", "--allow-unmanaged", "--memory-max", "24M", "--"];
    let run = output(&[&within, &allowed, &cmd]);
    assert!(
        peak(&run) > 0 && stderr(&run).contains("runs on unmanaged"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn who_becomes_another_user_goes_on_and_is_named() {
    let other = ["setpriv", "--reuid", "61234", "--clear-groups"];
    if !can_manage() || !is_root() || !output(&[&other, &["true"]]).status.success() {
        return;
    }
    let run = output(&[&both()[1], &other, &["sh", "-c", "echo here; exit 3"]]);
    assert_eq!(
        (stdout(&run).as_str(), run.status.code()),
        ("here\n", Some(3)),
        "{}",
        stderr(&run)
    );
    let said = stderr(&run);
    assert!(
        said.contains("it runs as user 61234, and its group is user 0's"),
        "{said}"
    );
}

/// What has the agent and grows, or forks, where nothing that a pager needs can be seen.
#[test]
fn who_goes_into_another_root_goes_on_and_is_named() {
    let chroot = "chdir '/sys'; chroot '.' or die 'no chroot';";
    if !can_manage() || !output(&[&["perl", "-e", chroot]]).status.success() {
        return;
    }
    let grows = format!("{chroot} $n = 20000000; $x = 'x' x $n; print length $x;");
    let forks = format!("$x = 'x' x 20000000; {chroot} if (fork) {{ wait; exit $? >> 8 }} print length $x; exit 4;");
    for script in [grows, forks] {
        let run = assert_same(&[], &["perl", "-e", &script]);
        assert!(stderr(&run).contains("its root directory has no"), "{}", stderr(&run));
    }
}

#[test]
fn a_process_whose_group_is_gone_is_ended_unless_that_is_allowed() {
    if !can_manage() {
        return;
    }
    let cmd = ["sh", "-c", "UZSWAP_GROUP=/no/such.group ls -d /; echo status $?"];
    let run = output(&[&both()[1], &cmd]);
    assert_eq!(stdout(&run), "status 125\n");
    assert!(stderr(&run).contains("its group has ended"), "{}", stderr(&run));
    let run = output(&[&[UZSWAP, "run", "--quiet", "--allow-unmanaged", "--"], &cmd]);
    assert_eq!(stdout(&run), "/\nstatus 0\n");
    assert!(stderr(&run).contains("its group has ended"), "{}", stderr(&run));
}

/// What stands in the way: a script around the launcher, and what it says.
#[test]
fn a_machine_that_lacks_something_is_refused_unless_that_is_allowed() {
    let cases = [
        ("umount -l /proc && exec \"$@\"", "mount it"),
        ("mount --bind /dev/null /dev/userfaultfd && exec \"$@\"", "userfaultfd"),
        ("ulimit -n 4; exec \"$@\"", "ulimit -n"),
    ];
    for (script, word) in cases {
        let within = [&["env", "UZSWAP_GUARD=off", "unshare", "-m"][..], &around(script)].concat();
        if !can_manage() || !output(&[&within, &["true"]]).status.success() {
            continue;
        }
        let run = output(&[&within, &[UZSWAP, "run", "--quiet", "--", "echo", "started"]]);
        let said = stderr(&run);
        assert_eq!(
            (run.status.code(), stdout(&run).as_str()),
            (Some(125), ""),
            "{script}: {said}"
        );
        assert!(
            said.contains(word) && said.contains("--allow-unmanaged") && said.lines().count() == 1,
            "{script}: {said}"
        );
        let run = output(&[
            &within,
            &[UZSWAP, "run", "--quiet", "--allow-unmanaged", "--", "echo", "started"],
        ]);
        assert_eq!(
            (run.status.code(), stdout(&run).as_str()),
            (Some(0), "started\n"),
            "{script}: {}",
            stderr(&run)
        );
        assert!(stderr(&run).contains(word), "{script}: {}", stderr(&run));
    }
}

#[test]
fn a_directory_that_cannot_be_written_has_another_in_its_place() {
    if !can_manage() {
        return;
    }
    let run = output(&[&["env", "TMPDIR=/proc"], &both()[1], &["echo", "started"]]);
    assert_eq!(
        (run.status.code(), stdout(&run).as_str()),
        (Some(0), "started\n"),
        "{}",
        stderr(&run)
    );
}

/// Programs open the swap file from where they are.
#[test]
fn a_swap_directory_is_the_same_from_everywhere() {
    if !can_manage() {
        return;
    }
    let script = "cd /var/tmp && exec \"$@\"";
    let launcher = [UZSWAP, "run", "--swap", ".", "--memory-max", "24M", "--"];
    let cmd = format!("cd /proc; exec {UZSWAP} demo-child {DATA}");
    let run = output(&[&around(script), &launcher, &["sh", "-c", &cmd]]);
    assert!(
        peak(&run) > 0 && !stderr(&run).contains("without a swap file"),
        "{}",
        stderr(&run)
    );
}

#[test]
fn a_run_without_a_limit_says_so() {
    if !can_manage() {
        return;
    }
    let run = output(&[&[UZSWAP, "run", "--", "true"]]);
    assert!(
        stderr(&run).contains("nothing is limited") && stderr(&run).lines().count() == 1,
        "{}",
        stderr(&run)
    );
    for options in [&["--quiet"][..], &["--memory-max", "24M"]] {
        let run = output(&[&[UZSWAP, "run"], options, &["--", "true"]]);
        assert_eq!(stderr(&run), "");
    }
}
