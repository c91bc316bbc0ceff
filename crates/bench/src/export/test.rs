use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::samples::Samples;

fn sheets() -> [Sheet; 2] {
    let mut first = Sheet::new("one, \"two\"", ["name", "value"]);
    first.row([json!("a,b\n\"c\""), json!(1.25)]);
    first.row([Value::Null, json!(18_446_744_073_709_551_615_u64)]);
    let mut second = Sheet::new("other", ["value", "more"]);
    second.row_of(&json!({ "more": true, "value": -1, "unasked": [1, 2] }));
    [first, second]
}

#[test]
fn json_reads_back_with_what_measured_it() {
    let mut figures = tables(&sheets());
    figures.insert("seed".to_owned(), json!(7));
    let text = json(&Header::look("1.2 (abc)"), figures);
    let read: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&read["uzswap"], &read["seed"]), (&json!("1.2 (abc)"), &json!(7)));
    let machine = &read["machine"];
    assert!(machine["kernel"].is_string() && machine["cpu"].is_string(), "{read:#}");
    assert!(machine["cpus"].as_u64() > Some(0) && machine["memory"].as_u64() > Some(0));
    assert!(read["date"].as_str().unwrap().ends_with('Z'));
    assert_eq!(read["tables"][0]["name"], "one, \"two\"");
    assert_eq!(
        read["tables"][0]["rows"][0],
        json!({ "name": "a,b\n\"c\"", "value": 1.25 })
    );
    assert_eq!(read["tables"][1]["rows"], json!([{ "value": -1, "more": true }]));
}

#[test]
fn a_table_of_json_is_taken_as_it_is() {
    let [first, _] = sheets();
    let again = Sheet::of(&first.json()).unwrap();
    assert_eq!(again.json(), first.json());
    assert!(Sheet::of(&json!({ "rows": [] })).is_none());
}

#[test]
fn csv_reads_back_below_what_measured_it() {
    let text = csv(&Header::look("1.2 (abc)"), &sheets()).unwrap();
    for fact in [
        "# uzswap: 1.2 (abc)\n",
        "\n# date: ",
        "\n# kernel: ",
        "\n# processors: ",
        "\n# memory: ",
    ] {
        assert!(text.contains(fact), "no {fact}: {text}");
    }
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .from_reader(text.as_bytes());
    let head = reader.headers().unwrap().iter().collect::<Vec<_>>();
    assert_eq!(head, ["table", "name", "value", "more"]);
    let rows: Vec<Vec<String>> = reader
        .records()
        .map(|row| row.unwrap().iter().map(str::to_owned).collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["one, \"two\"", "a,b\n\"c\"", "1.25", ""],
            ["one, \"two\"", "", "18446744073709551615", ""],
            ["other", "", "-1", "true"],
        ]
    );
}

#[test]
fn two_options_do_not_write_one_file() {
    let [a, b] = ["a", "b"].map(|name| Some(Path::new(name)));
    assert!(apart(&[("--json", a), ("--csv", b), ("--html", None), ("--more", None)]).is_ok());
    let refused = apart(&[("--json", a), ("--html", b), ("--csv", a)]).unwrap_err();
    assert_eq!(refused.line(), "--csv a: --json writes this file; name another");
}

#[test]
fn a_file_that_cannot_be_made_is_refused_by_name() {
    for (path, why) in [("/no/such/file", "No such file"), ("/", "Is a directory")] {
        let Err(refused) = Output::create("--csv", Some(Path::new(path))) else {
            panic!("{path} was made")
        };
        assert!(
            refused.line().starts_with(&format!("--csv {path}: {why}")),
            "{}",
            refused.line()
        );
    }
}

#[test]
fn a_spread_has_a_value_for_each_column() {
    let samples: Samples = [1.0, 2.0, 6.0].into_iter().collect();
    let values = sheet::spread(&samples);
    assert_eq!(values.len(), sheet::SPREAD.len());
    assert_eq!((&values[0], &values[3]), (&json!(2.0), &json!(3.0)));
}
