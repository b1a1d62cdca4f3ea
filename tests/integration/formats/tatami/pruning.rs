//! Compares predicates and key lookups with the results of the reference implementation.

use serde_json::Value;
use tet_sql::format::tatami::{ColumnType, Scalar};

use super::data::{Table, document, names, path};
use super::predicate::{Literal, Operator, Predicate, within};

/// Returns the matching rows and the number of row groups that are not pruned. Fails if a pruned row group
/// has a matching row.
fn matches(table: &Table, predicate: &Predicate, text: &str) -> (Vec<(usize, usize)>, u64) {
    let mut found = Vec::new();
    let mut scanned = 0;
    for (group, stored) in table.file.row_groups().iter().enumerate() {
        let may_match = predicate.may_match(&table.file, group);
        scanned += u64::from(may_match);
        for row in 0..stored.rows as usize {
            if predicate.holds(table, group, row) {
                assert!(may_match, "{text}: row {row} of group {group} was pruned");
                found.push((group, row));
            }
        }
    }
    (found, scanned)
}

#[test]
fn predicates_have_the_answers_of_the_reference() {
    for name in ["bloom", "sorted_int_dups", "sorted_str", "zones"] {
        let table = Table::open(name);
        for case in document(&format!("{name}.preds.json")).as_array().unwrap() {
            let text = case["where"].as_str().unwrap();
            let predicate = Predicate::parse(&table.file, text);
            let (rows, scanned) = matches(&table, &predicate, text);
            assert_eq!(
                rows.len() as u64,
                case["rows"].as_u64().unwrap(),
                "{name}: {text}"
            );
            assert!(
                scanned <= case["groups_scanned"].as_u64().unwrap(),
                "{name}: {text}: {scanned}"
            );
            let first = rows
                .first()
                .map_or(Value::Null, |(group, row)| table.row(*group, *row));
            assert_eq!(
                &first,
                case.get("first_row").unwrap_or(&Value::Null),
                "{name}: {text}"
            );
        }
    }
}

#[test]
fn float_predicates_follow_ieee_and_not_the_faults_of_the_reference() {
    let table = Table::open("floats_special");
    for case in document("floats_special.refbugs.json").as_array().unwrap() {
        let text = case["where"].as_str().unwrap();
        let predicate = Predicate::parse(&table.file, text);
        let (rows, _) = matches(&table, &predicate, text);
        assert_eq!(
            rows.len() as u64,
            case["ieee_truth"].as_u64().unwrap(),
            "{text}"
        );
    }
}

#[test]
fn keys_are_found_with_group_bounds_and_the_page_index() {
    for name in ["sorted_str", "sorted_int_dups"] {
        let table = Table::open(name);
        let file = &table.file;
        let key = file.schema().sort_key().unwrap();
        let column_type = file.column_type(key).unwrap();
        for case in document(&format!("{name}.lookups.json"))
            .as_array()
            .unwrap()
        {
            let text = match &case["key"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let literal = Literal::new(column_type, &text);
            let value = literal.scalar();
            let mut found = None;
            let mut pages_read = 0;
            for group in 0..file.row_groups().len() {
                let pages = file.pages(group, key).unwrap();
                for (entry, page) in file.page_index(group).unwrap().unwrap().iter().zip(pages) {
                    if found.is_some()
                        || !within(&entry.value_bounds(column_type), Operator::Equal, &value)
                    {
                        continue;
                    }
                    pages_read += 1;
                    found = page.rows().find_map(|row| {
                        let scalar = table.groups[group][key].scalar(row as usize)?;
                        let is_equal = Scalar::parse(column_type, &scalar)? == value;
                        is_equal.then_some((group as u64, row))
                    });
                }
            }
            assert!(pages_read <= 1, "{name}: {text}: {pages_read} pages");
            let expected = case["found"].as_bool().unwrap().then(|| {
                (
                    case["group"].as_u64().unwrap(),
                    case["row"].as_u64().unwrap(),
                )
            });
            assert_eq!(found, expected, "{name}: {text}");
        }
    }
}

#[test]
fn filters_and_bounds_contain_every_value() {
    for name in names() {
        let table = Table::open(&name);
        let file = &table.file;
        for (group, columns) in table.groups.iter().enumerate() {
            for (column, values) in columns.iter().enumerate() {
                let column_type = values.column_type();
                if column_type == ColumnType::BlobRef {
                    continue;
                }
                let bounds = file.bounds(group, column).unwrap();
                for row in 0..values.rows() {
                    let Some(bytes) = values.scalar(row) else {
                        continue;
                    };
                    let value = Scalar::parse(column_type, &bytes).unwrap();
                    assert!(
                        file.may_contain(group, column, &value).unwrap(),
                        "{name}: {value:?}"
                    );
                    if !value.is_nan() {
                        assert!(
                            within(&bounds, Operator::Equal, &value),
                            "{name}: {value:?}"
                        );
                    }
                    let zero = match value {
                        Scalar::Float64(zero @ 0.0) => Scalar::Float64(-zero),
                        Scalar::Float32(zero @ 0.0) => Scalar::Float32(-zero),
                        _ => continue,
                    };
                    assert!(
                        file.may_contain(group, column, &zero).unwrap(),
                        "{name}: {zero:?}"
                    );
                }
            }
        }
    }
    assert!(path("floats_special.tatami").exists());
}
