//! Redis, read with evenly drawn keys (redis-benchmark), with a few keys far more often (Zipf), and
//! while it saves.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::usemem::{PassResult, read_passes};
use super::{MIB, WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::process::{Process, output, words};
use crate::compare::procfs::rss_anon;
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Of what the server has without a limit, under the kernel's zswap.
const RESIDENT_PERCENT: u64 = 55;
const VALUE_BYTES: u64 = 1024;
const READY: Duration = Duration::from_secs(60);
/// Requests during a BGSAVE are so many times fewer, or it would be over before they are.
const SAVING_SHARE: u64 = 4;
/// A BGSAVE that takes longer than that is left to end with its server.
const BGSAVE_MOST: Duration = Duration::from_secs(20);
/// Between two questions whether a BGSAVE is over.
const POLL: Duration = Duration::from_millis(100);

/// A server with so many MiB of values.
pub(super) struct Redis {
    mib: u64,
    requests: u64,
    /// What the server has resident without a limit. Bytes.
    working_set: u64,
}

/// What a phase of a run came to.
struct Benchmark {
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// All phases.
struct Phases {
    uniform: Benchmark,
    saving: Benchmark,
    /// `None`: it was not over when nobody would wait any longer.
    bgsave_seconds: Option<f64>,
    zipf: PassResult,
}

impl Redis {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            mib: context.full_or(384, 128),
            requests: context.full_or(100_000, 30_000),
            working_set: 0,
        }
    }

    fn keys(&self) -> u64 {
        self.mib * MIB / VALUE_BYTES
    }

    /// `uzswap workload redis-load`.
    fn load(&self, context: &Context, port: u16) -> Result<(), Failure> {
        let mut line: Vec<OsString> = vec![context.uzswap.clone().into()];
        let args = [
            "workload",
            "redis-load",
            "--port",
            &port.to_string(),
            "--mb",
            &self.mib.to_string(),
        ];
        line.extend(args.map(OsString::from));
        output(&line, None, context.timeout).map(drop)
    }

    fn zipf(&self, context: &Context, port: u16) -> Result<PassResult, Failure> {
        let mut line: Vec<OsString> = vec![context.uzswap.clone().into()];
        let (port, keys, requests) = (port.to_string(), self.keys().to_string(), self.requests.to_string());
        let args = [
            "workload",
            "redis-get",
            "--port",
            &port,
            "--keys",
            &keys,
            "--requests",
            &requests,
        ];
        line.extend(args.map(OsString::from));
        line.extend(["--clients", "20", "--keys-drawn", "zipf"].map(OsString::from));
        let output = output(&line, None, context.timeout)?;
        let passes = read_passes(&String::from_utf8_lossy(&output.stdout))?;
        let get = passes.into_values().next();
        get.ok_or_else(|| Failure::new("redis-get printed nothing"))
    }

    fn uniform(&self, context: &Context, port: u16, requests: u64) -> Result<Benchmark, Failure> {
        let (port, requests, keys) = (port.to_string(), requests.to_string(), self.keys().to_string());
        let line = words([
            "redis-benchmark",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-t",
            "get",
            "-n",
            &requests,
            "-r",
            &keys,
            "-c",
            "20",
            "--csv",
        ]);
        let output = output(&line, None, context.timeout)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        parse_csv(&text).ok_or_else(|| Failure::new(format!("redis-benchmark printed '{}'", text.trim_end())))
    }

    fn phases(&self, context: &Context, port: u16) -> Result<Phases, Failure> {
        wait_until_ready(port)?;
        self.load(context, port)?;
        let uniform = self.uniform(context, port, self.requests)?;
        let zipf = self.zipf(context, port)?;
        let began = Instant::now();
        ask(port, "BGSAVE")?;
        let saving = self.uniform(context, port, self.requests / SAVING_SHARE)?;
        let bgsave_seconds = wait_for_bgsave(port, began)?;
        // It ends without an answer.
        let _ = ask(port, "SHUTDOWN NOSAVE");
        Ok(Phases {
            uniform,
            saving,
            bgsave_seconds,
            zipf,
        })
    }
}

impl Workload for Redis {
    fn name(&self) -> String {
        "redis".to_owned()
    }

    fn title(&self) -> String {
        "Redis".to_owned()
    }

    fn description(&self) -> String {
        format!(
            "A server with {} keys of 1 KiB, heap-like values. GET by 20 clients: redis-benchmark draws keys evenly, by itself and \
             from the moment of a BGSAVE on; `uzswap workload redis-get` draws them with Zipf's law. {RESIDENT_PERCENT} % of what \
             the server has without a limit is resident under the kernel's zswap. The clients are not limited.",
            self.keys()
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        let rate = |key: &str, label: &str| Metric::new(key, label, "1/s", true).digits(0);
        let ms = |key: &str, label: &str| Metric::new(key, label, "ms", false).digits(2);
        vec![
            rate("uniform.rate", "GET uniform"),
            ms("uniform.p50", "GET uniform p50"),
            ms("uniform.p99", "GET uniform p99"),
            rate("bgsave.rate", "GET uniform during BGSAVE"),
            ms("bgsave.p99", "GET during BGSAVE p99"),
            Metric::new("bgsave.seconds", "BGSAVE", "s", false).digits(2),
            rate("zipf.gets", "GET Zipf"),
            Metric::new("zipf.p50", "GET Zipf p50", "us", false),
            Metric::new("zipf.p99", "GET Zipf p99", "us", false),
            Metric::new("zipf.p99.9", "GET Zipf p99.9", "us", false),
        ]
    }

    fn sides(&self) -> Vec<Side> {
        WITHOUT_ZRAM.to_vec()
    }

    fn budget(&self) -> Budget {
        Budget::Resident {
            bytes: self.working_set * RESIDENT_PERCENT / 100,
            working_set: self.working_set,
        }
    }

    fn is_shared_after_fork(&self) -> bool {
        true
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        let port = free_port()?;
        let process = Process::start(&server(context, port), None)?;
        wait_until_ready(port)?;
        self.load(context, port)?;
        self.working_set = rss_anon(process.pid());
        process.terminate();
        process.wait(context.timeout).map(drop)
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        let port = free_port()?;
        let server = server(session.context, port);
        let (phases, measured) = session.run_while(&server, None, |_| self.phases(session.context, port))?;
        let mut outcome = Outcome::from(measured);
        phases.zipf.put_into("zipf", &mut outcome);
        outcome.put("zipf.gets", phases.zipf.touches as f64 / phases.zipf.seconds);
        for (name, benchmark) in [("uniform", phases.uniform), ("bgsave", phases.saving)] {
            outcome.put(format!("{name}.rate"), benchmark.rate);
            outcome.put(format!("{name}.p50"), benchmark.p50_ms);
            outcome.put(format!("{name}.p99"), benchmark.p99_ms);
        }
        if let Some(seconds) = phases.bgsave_seconds {
            outcome.put("bgsave.seconds", seconds);
        }
        Ok(outcome)
    }
}

/// A port of this machine's own address that nobody listens on.
pub(super) fn free_port() -> Result<u16, Failure> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(port.map_err(|e| Failure::new(format!("127.0.0.1: {e}")))?.port())
}

/// A server that keeps nothing but what BGSAVE writes.
pub(super) fn server(context: &Context, port: u16) -> Vec<OsString> {
    let port = port.to_string();
    let mut line = words([
        "redis-server",
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    line.extend(["--dir".into(), context.work.clone().into()]);
    line
}

pub(super) fn wait_until_ready(port: u16) -> Result<(), Failure> {
    let deadline = Instant::now() + READY;
    while !ask(port, "PING").is_ok_and(|answer| answer.starts_with("+PONG")) {
        if Instant::now() > deadline {
            return Err(Failure::new(format!(
                "redis-server does not answer on port {port} within {} s",
                READY.as_secs()
            )));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Seconds since it `began`, if it ends soon.
fn wait_for_bgsave(port: u16, began: Instant) -> Result<Option<f64>, Failure> {
    while info(port)?.contains("rdb_bgsave_in_progress:1") {
        if began.elapsed() > BGSAVE_MOST {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
    if !info(port)?.contains("rdb_last_bgsave_status:ok") {
        return Err(Failure::new("BGSAVE failed"));
    }
    Ok(Some(began.elapsed().as_secs_f64()))
}

/// The first bytes of the answer to an inline command.
fn ask(port: u16, command: &str) -> Result<String, Failure> {
    let failed = |e: std::io::Error| Failure::new(format!("redis on port {port}: {command}: {e}"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
    stream.set_read_timeout(Some(READY)).map_err(failed)?;
    stream.write_all(format!("{command}\r\n").as_bytes()).map_err(failed)?;
    let mut answer = [0; 16 << 10];
    let length = stream.read(&mut answer).map_err(failed)?;
    Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
}

fn info(port: u16) -> Result<String, Failure> {
    ask(port, "INFO persistence")
}

/// `"GET","rps","avg","min","p50","p95","p99","max"`, after a line of headings.
fn parse_csv(text: &str) -> Option<Benchmark> {
    let line = text.lines().find(|line| line.starts_with("\"GET\""))?;
    let fields: Vec<f64> = line
        .split(',')
        .filter_map(|field| field.trim_matches('"').parse().ok())
        .collect();
    Some(Benchmark {
        rate: *fields.first()?,
        p50_ms: *fields.get(3)?,
        p99_ms: *fields.get(5)?,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn figures_of_redis_benchmark_are_read() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                    \"p99_latency_ms\",\"max_latency_ms\"\n\"GET\",\"91743.12\",\"0.124\",\"0.048\",\"0.119\",\"0.175\",\
                    \"0.303\",\"1.247\"\n";
        let benchmark = parse_csv(text).unwrap();
        assert_eq!(
            (benchmark.rate, benchmark.p50_ms, benchmark.p99_ms),
            (91743.12, 0.119, 0.303)
        );
        assert!(parse_csv("Could not connect").is_none());
    }
}
