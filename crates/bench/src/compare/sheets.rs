//! The report as CSV: what report.json has of each run, in the median.

use serde_json::json;

use super::results::{Results, WorkloadResult};
use crate::Failure;
use crate::export::{self, Header, Sheet, sheet};

/// All tables, below what the run was measured by: now may be much later.
pub(super) fn csv(results: &Results) -> Result<String, Failure> {
    let header = Header {
        uzswap: export::version(&results.commit),
        date: results.date.clone(),
        machine: results.machine.clone(),
    };
    let sheets = [metrics(&results.workloads), memory(&results.workloads)];
    export::csv(&header, &sheets).map_err(|e| Failure::new(format!("report.csv: {e}")))
}

fn metrics(workloads: &[WorkloadResult]) -> Sheet {
    let columns = ["workload", "side", "metric", "unit", "runs"];
    let mut metrics = Sheet::new("metrics", columns.into_iter().chain(sheet::SPREAD));
    for workload in workloads {
        for side in workload.sides() {
            for metric in &workload.metrics {
                let Some(samples) = workload.samples(side, &metric.key) else {
                    continue;
                };
                let runs = workload.runs_of(side).count();
                let what = [
                    json!(workload.name),
                    json!(side.name()),
                    json!(metric.key),
                    json!(metric.unit),
                    json!(runs),
                ];
                metrics.row(what.into_iter().chain(sheet::spread(&samples)));
            }
        }
    }
    metrics
}

fn memory(workloads: &[WorkloadResult]) -> Sheet {
    let columns = [
        "workload",
        "side",
        "limit",
        "target",
        "resident_peak",
        "pool_peak",
        "total_peak",
        "disk_peak",
    ];
    let mut memory = Sheet::new("memory", columns);
    for workload in workloads {
        for side in workload.sides() {
            let mut row = json!(workload.memory(side));
            row["workload"] = json!(workload.name);
            row["side"] = json!(side.name());
            memory.row_of(&row);
        }
    }
    memory
}

#[cfg(test)]
mod test {
    use super::super::machine::Machine;
    use super::super::results::test::workload;
    use super::*;

    #[test]
    fn a_side_has_a_row_for_each_metric_and_one_for_its_memory() {
        let results = Results {
            date: "2026-01-01T00:00:00Z".to_owned(),
            commit: "abc".to_owned(),
            is_quick: true,
            pairs: 2,
            seconds: 1.0,
            machine: Machine::default(),
            skipped: Vec::new(),
            workloads: vec![workload()],
        };
        let text = csv(&results).unwrap();
        assert!(text.contains("(abc)\n# date: 2026-01-01T00:00:00Z\n"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            rows[0],
            "table,workload,side,metric,unit,runs,median,lowest,highest,mean,standard_deviation,limit,target,\
             resident_peak,pool_peak,total_peak,disk_peak"
        );
        assert!(
            rows[1].starts_with("metrics,usemem-write,kernel zswap,write.rate,MB/s,2,150.0,100.0,200.0,150.0,50.0,")
        );
        assert_eq!(rows[4], "memory,usemem-write,uzswap,,,,,,,,,0,0,0,0,0,0");
        assert_eq!(rows.len(), 5);
    }
}
