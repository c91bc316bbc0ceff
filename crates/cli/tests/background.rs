//! What the launcher's copy in the background does for who has outlived CMD.

mod common;

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use common::{UZSWAP, can_manage, temp, uzswap_run};

/// How long anything is waited for; loaded machines take their time.
const PATIENCE: Duration = Duration::from_secs(90);
/// A /dev of the command's own, of what the machine has, with the socket $LOG as the system's log.
const OWN_LOG: &str = r#"mkdir -p "$AT" && mount -t tmpfs none "$AT" && : > "$AT/log" && mount --bind "$LOG" "$AT/log" || exit 77
for name in null zero full random urandom userfaultfd shm pts; do
    [ ! -e /dev/$name ] || { [ -d /dev/$name ] && mkdir "$AT/$name" || : > "$AT/$name"; mount --rbind /dev/$name "$AT/$name"; } || exit 77
done
mount --rbind "$AT" /dev && exec "$@""#;

/// Nothing but its launcher knows that it is one, until it has joined the group.
#[test]
fn daemons_without_an_environment_outlive_their_makers() {
    if !can_manage() {
        return;
    }
    for round in 0..20 {
        let file = temp(&format!("daemon-{round}"));
        let (path, mut waited) = (file.display(), 0);
        let script = format!("(env -i /bin/sh -c '/bin/sleep 0.1; echo x > {path}' &); exit 0");
        let started = uzswap_run()
            .args(["--memory-max", "24M", "--", "sh", "-c", &script])
            .status();
        assert!(started.expect("starting uzswap").success());
        while !file.exists() {
            std::thread::sleep(Duration::from_millis(20));
            waited += 1;
            assert!(waited < 20 * 50, "round {round}: it was ended");
        }
        let _ = std::fs::remove_file(file);
    }
}

/// As nobody reads its stderr, that it is killed stands where daemons' ends are looked for.
#[test]
fn a_daemons_end_for_the_limit_is_in_the_log_of_the_system() {
    let (at, log, go) = (temp("dev"), temp("log"), temp("go"));
    let within = || {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", OWN_LOG, "sh"]);
        command.env("AT", &at).env("LOG", &log).env("UZSWAP_GUARD", "off");
        command
    };
    let listener = UnixDatagram::bind(&log).expect("a socket");
    listener.set_read_timeout(Some(PATIENCE)).expect("a time");
    let has_own_log = within().arg("true").status().is_ok_and(|status| status.success());
    if can_manage() && has_own_log {
        let fill = "import os; b = [os.urandom(1 << 20) for _ in range(80)]";
        let script = format!(
            "{{ until [ -e {} ]; do sleep 0.05; done; exec python3 -c \"{fill}\"; }} </dev/null >/dev/null 2>&1 &",
            go.display()
        );
        let options = ["run", "--memory-max", "24M", "--swap", "none"];
        let mut run = within();
        run.arg(UZSWAP).args(options).args(["--", "sh", "-c", &script]);
        let run = run.output().expect("uzswap");
        let stderr = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success(), "{}: {stderr}", run.status);
        std::fs::write(&go, "").expect("a file");
        let mut lines = std::iter::from_fn(|| next_line(&listener));
        let line = lines.find(|line| line.contains("is killed"));
        let line = line.unwrap_or_else(|| panic!("it was not said; on stderr: {stderr}"));
        let (head, text) = line.split_once("]: ").unwrap_or_default();
        assert!(head.starts_with("<28>uzswap["), "{line}");
        assert!(text.contains("python3"), "{line}");
    }
    let _ = std::fs::remove_file(&log);
    let _ = std::fs::remove_file(&go);
    let _ = std::fs::remove_dir(&at);
}

/// `None`: nobody says anything any more.
fn next_line(listener: &UnixDatagram) -> Option<String> {
    let mut line = [0; 4096];
    let len = listener.recv(&mut line).ok()?;
    Some(String::from_utf8_lossy(&line[..len]).into_owned())
}
