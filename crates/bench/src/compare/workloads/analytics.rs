//! A sort and a group-by in memory: DuckDB where Python has it, else Python's own.

use super::{WITHOUT_ZRAM, Workload};
use crate::Failure;
use crate::compare::context::Context;
use crate::compare::equal_memory::Budget;
use crate::compare::process::{output, words};
use crate::compare::results::Metric;
use crate::compare::session::{Outcome, Session};
use crate::compare::side::Side;

/// Of what the job takes without a limit.
const TOTAL_PERCENT: u64 = 70;

/// Times are printed by the script: making the table is not the job.
const DUCKDB: &str = "
import duckdb, sys, time
mib = int(sys.argv[1])
c = duckdb.connect()
c.execute('set threads=2'); c.execute(\"set memory_limit='8GB'\")
c.execute('create table t as select (hash(i) % 100000)::int k, hash(i*7) v, md5((i%1000)::varchar) s from range({}) r(i)'.format(mib * 17000))
began = time.monotonic()
groups = c.execute('select k, count(*), avg(v), max(s) from t group by k order by 3 desc limit 10').fetchall()
grouped = time.monotonic()
c.execute('create table u as select * from t order by v, s')
print(grouped - began, time.monotonic() - grouped)
";

const PYTHON: &str = "
import random, sys, time
mib = int(sys.argv[1])
r = random.Random(1)
rows = [(r.getrandbits(17), r.random(), 'name%d' % (i % 9973)) for i in range(mib * 5000)]
began = time.monotonic()
groups = {}
for k, v, s in rows:
    n, total = groups.get(k, (0, 0.0))
    groups[k] = (n + 1, total + v)
grouped = time.monotonic()
rows.sort()
print(grouped - began, time.monotonic() - grouped)
";

/// The job.
pub(super) struct Analytics {
    mib: u64,
    script: &'static str,
    /// The interpreter itself: `python3` may be a script that finds it.
    python: String,
    /// Bytes that it takes without a limit.
    peak: u64,
}

impl Analytics {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            mib: context.full_or(2048, 64),
            script: DUCKDB,
            python: String::new(),
            peak: 0,
        }
    }

    fn is_duckdb(&self) -> bool {
        self.script == DUCKDB
    }

    fn job(&self, session: &Session) -> Result<Outcome, Failure> {
        let line = words([&self.python, "-c", self.script, &self.mib.to_string()]);
        let measured = session.run(&line, None)?;
        let stdout = String::from_utf8_lossy(&measured.output.stdout).into_owned();
        let mut outcome = Outcome::from(measured);
        let times = stdout.split_whitespace().map(str::parse::<f64>);
        let Ok(times) = times.collect::<Result<Vec<_>, _>>() else {
            return Err(Failure::new(format!("the script printed '{}'", stdout.trim_end())));
        };
        for (key, value) in ["group.seconds", "sort.seconds"].into_iter().zip(&times) {
            outcome.put(key, *value);
        }
        outcome.put("job.seconds", times.iter().sum());
        Ok(outcome)
    }
}

impl Workload for Analytics {
    fn name(&self) -> String {
        "analytics".to_owned()
    }

    fn title(&self) -> String {
        "Analytics".to_owned()
    }

    fn description(&self) -> String {
        let with = if self.is_duckdb() {
            "DuckDB"
        } else {
            "plain Python (it has no duckdb module)"
        };
        format!(
            "A group-by and a sort of a table in {with}, which takes {} MiB without a limit; {TOTAL_PERCENT} % of that.",
            self.peak >> 20
        )
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::new("job.seconds", "both", "s", false).digits(2),
            Metric::new("group.seconds", "group-by", "s", false).digits(2),
            Metric::new("sort.seconds", "sort", "s", false).digits(2),
        ]
    }

    fn budget(&self) -> Budget {
        Budget::Total {
            bytes: self.peak * TOTAL_PERCENT / 100,
            working_set: self.peak,
            resident_least: self.peak / 5,
        }
    }

    fn sides(&self) -> Vec<Side> {
        WITHOUT_ZRAM.to_vec()
    }

    fn pairs(&self, asked: u32) -> u32 {
        asked.min(3)
    }

    fn prepare(&mut self, context: &Context) -> Result<(), Failure> {
        let find = words([
            "python3",
            "-c",
            "import os, sys; print(os.path.realpath(sys.executable))",
        ]);
        let found = output(&find, None, context.timeout)?;
        String::from_utf8_lossy(&found.stdout)
            .trim()
            .clone_into(&mut self.python);
        let has_duckdb = output(&words([&self.python, "-c", "import duckdb"]), None, context.timeout).is_ok();
        if !has_duckdb {
            self.script = PYTHON;
            // Its objects are sorted one by one, all over memory: 384 MiB took three minutes.
            self.mib = self.mib.min(96);
        }
        let prepared = Side::NoLimit.prepare(context, 0)?;
        let session = Session {
            context,
            prepared: &prepared,
            is_shared: false,
        };
        self.peak = self.job(&session)?.watched.memory.total_peak;
        Ok(())
    }

    fn run(&self, session: &Session) -> Result<Outcome, Failure> {
        self.job(session)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::DUCKDB;

    /// In the place of DuckDB, which few have: it prints what it is asked.
    const STAND_IN: &str = "
import sys, types
class Connection:
    def execute(self, text):
        print(text, file=sys.stderr)
        return self
    def fetchall(self):
        return []
sys.modules['duckdb'] = types.SimpleNamespace(connect=Connection)
";

    /// The text has percent signs, and a place for a number.
    #[test]
    fn duckdb_is_asked_for_its_rows() {
        let script = format!("{STAND_IN}{DUCKDB}");
        let Ok(output) = Command::new("python3").args(["-c", &script, "3"]).output() else {
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(
            said.contains("hash(i) % 100000") && said.contains("range(51000)"),
            "{said}"
        );
        let times = String::from_utf8_lossy(&output.stdout);
        assert_eq!(times.split_whitespace().count(), 2, "{times}");
    }
}
