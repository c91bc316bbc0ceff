//! The swap table before and after: sharded maps, and what the engine has.

mod race;
mod swap_cache;

use serde_json::json;

use crate::Failure;
use crate::export::Sheet;
use crate::export::sheet::{SPREAD, spread};
use crate::options::SwapTable as Options;
use crate::samples::{Samples, change};
use crate::table::Table;
use race::{Course, Heat, Operation, Order};
use swap_cache::{EngineTable, LockedTable, ShardedMaps, SwapCache};

/// A swap cache that is measured: one more line here is one more column.
struct Contestant {
    name: &'static str,
    measure: fn(&Course, &[Heat]) -> Round,
}

/// The first is what the others are compared with.
const CONTESTANTS: [Contestant; 3] = [
    Contestant {
        name: "64 locked maps",
        measure: measure::<ShardedMaps>,
    },
    Contestant {
        name: "one lock",
        measure: measure::<LockedTable>,
    },
    Contestant {
        name: "swap table",
        measure: measure::<EngineTable>,
    },
];

/// What one contestant did in one round.
struct Round {
    /// Operations a second in each heat.
    rates: Vec<f64>,
    bytes_per_page: f64,
}

fn measure<C: SwapCache>(course: &Course, heats: &[Heat]) -> Round {
    let cache: C = course.fill();
    Round {
        rates: heats.iter().map(|heat| course.run(&cache, *heat)).collect(),
        bytes_per_page: course.bytes_per_page(&cache),
    }
}

/// Measure and print.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let outputs = options.files.create()?;
    let course = Course::new((options.mi_pages as usize) << 20);
    let heats = heats(options.threads as usize);
    let mut rounds: Vec<[Round; CONTESTANTS.len()]> = Vec::new();
    for _ in 0..options.rounds {
        rounds.push(CONTESTANTS.map(|contestant| (contestant.measure)(&course, &heats)));
    }
    println!(
        "{} Mi pages, million operations a second of all threads together, median of {} (spread)\n",
        options.mi_pages, options.rounds
    );
    println!("{}", table(&heats, &rounds));
    outputs.write(&sheets(&heats, &rounds))
}

/// The same for programs.
fn sheets(heats: &[Heat], rounds: &[[Round; CONTESTANTS.len()]]) -> [Sheet; 2] {
    let what = ["contestant", "threads", "operation", "order"];
    let mut rates = Sheet::new("operations a second", what.into_iter().chain(SPREAD));
    let mut sizes = Sheet::new("size", ["contestant", "bytes_per_page"]);
    for (at, contestant) in CONTESTANTS.iter().enumerate() {
        for (i, heat) in heats.iter().enumerate() {
            let samples: Samples = rounds.iter().map(|round| round[at].rates[i]).collect();
            let [operation, order] = words(*heat);
            let what = [
                json!(contestant.name),
                json!(heat.threads),
                json!(operation),
                json!(order),
            ];
            rates.row(what.into_iter().chain(spread(&samples)));
        }
        sizes.row([json!(contestant.name), json!(rounds[0][at].bytes_per_page)]);
    }
    [rates, sizes]
}

/// 1, 2, 4, ... threads, up to `threads`.
fn heats(threads: usize) -> Vec<Heat> {
    let mut heats = Vec::new();
    for threads in std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= threads) {
        for operation in [Operation::Lookup, Operation::Publish] {
            heats.extend([Order::Sequential, Order::Random].map(|order| Heat {
                threads,
                operation,
                order,
            }));
        }
    }
    heats
}

fn table(heats: &[Heat], rounds: &[[Round; CONTESTANTS.len()]]) -> Table {
    let mut table = Table::default();
    table.row(heading());
    table.row(
        ["".to_owned()]
            .into_iter()
            .chain(CONTESTANTS.iter().flat_map(|c| [c.name.to_owned(), String::new()])),
    );
    for (i, heat) in heats.iter().enumerate() {
        let samples = |contestant: usize| rounds.iter().map(|round| round[contestant].rates[i]).collect();
        table.row(rate_row(&label(*heat), samples));
    }
    let bytes = std::array::from_fn(|contestant| rounds[0][contestant].bytes_per_page);
    table.row(bytes_row(bytes));
    table
}

fn heading() -> Vec<String> {
    let names = CONTESTANTS.iter().enumerate().flat_map(|(i, _)| match i {
        0 => ["Before:".to_owned(), String::new()],
        _ => ["After:".to_owned(), String::new()],
    });
    std::iter::once(String::new()).chain(names).collect()
}

fn words(heat: Heat) -> [&'static str; 2] {
    let operation = match heat.operation {
        Operation::Lookup => "lookups",
        Operation::Publish => "publications",
    };
    let order = match heat.order {
        Order::Sequential => "in order",
        Order::Random => "at random",
    };
    [operation, order]
}

fn label(heat: Heat) -> String {
    let [operation, order] = words(heat);
    let plural = if heat.threads == 1 { "" } else { "s" };
    format!("{} thread{plural}, {operation} {order}:", heat.threads)
}

/// For each contestant the median, then the spread of the first and the change of the others.
fn rate_row(label: &str, samples: impl Fn(usize) -> Samples) -> Vec<String> {
    let base = samples(0);
    let cells = (0..CONTESTANTS.len()).flat_map(|contestant| {
        let rates = samples(contestant);
        let spread = format!("{:.0}%", rates.spread_percent());
        let note = match contestant {
            0 => format!("({spread})"),
            _ => format!("({spread}) {}", change(base.median(), rates.median())),
        };
        [format!("{:.2}", rates.median() / 1e6), note]
    });
    std::iter::once(label.to_owned()).chain(cells).collect()
}

fn bytes_row(bytes: [f64; CONTESTANTS.len()]) -> Vec<String> {
    let cells = bytes.iter().enumerate().flat_map(|(contestant, bytes_per_page)| {
        let note = match contestant {
            0 => String::new(),
            _ => change(bytes[0], *bytes_per_page),
        };
        [format!("{bytes_per_page:.2}"), note]
    });
    std::iter::once("bytes per page:".to_owned()).chain(cells).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::export::{self, Header};

    #[test]
    fn a_small_race_fills_every_cell() {
        let (course, heats) = (Course::new(4096), heats(2));
        assert_eq!(heats.len(), 8);
        let rounds = [CONTESTANTS.map(|contestant| (contestant.measure)(&course, &heats))];
        let text = table(&heats, &rounds).to_string();
        assert_eq!(text.lines().count(), 2 + 8 + 1);
        assert!(text.contains("2 threads, publications at random:"), "{text}");
        let csv = export::csv(&Header::look("x"), &sheets(&heats, &rounds)).unwrap();
        let rows = csv.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(rows, 1 + 3 * 8 + 3, "{csv}");
    }
}
