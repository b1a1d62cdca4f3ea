//! The checks behind `tet verify`, compared with the verdicts of the `tetration` reference
//! implementation on the same files.

use std::fs;

use serde_json::Value;
use tet_sql::format::tet::verify::Severity;

use crate::command::tet::{data, deep, tet, text};

/// The edge case files, each with `true` if the reference implementation accepts it.
pub(super) fn reactions() -> Vec<(String, bool)> {
    let text = fs::read_to_string(data("edge/reference-reactions.txt")).unwrap();
    let mut reactions = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("### ") {
            name = next.to_string();
        } else if let Some(verdict) = line.trim_start().strip_prefix("verify rc=") {
            reactions.push((name.clone(), verdict.starts_with('0')));
        }
    }
    reactions
}

#[test]
fn verify_refuses_what_the_reference_refuses_and_more() {
    // Errors that the reference implementation does not detect: inconsistent metadata, and payloads
    // at invalid offsets.
    let missed = [
        "footer_json_array",
        "meta_wrong_dim_count",
        "meta_wrong_label_count",
        "meta_dup_dim_names",
        "payload_in_superblock",
        "overlap_payload",
    ];
    let reactions = reactions();
    assert!(reactions.len() > 50);
    for (name, is_sound) in reactions {
        let report = deep(&data(&format!("edge/{name}.tet")));
        let expected = is_sound && !missed.contains(&name.as_str());
        assert_eq!(report.ok, expected, "{name}: {report:#?}");
        let errors = report.findings.iter();
        let errors = errors.filter(|finding| finding.severity == Severity::Error);
        assert_eq!(errors.count() == 0, report.ok, "{name}");
        assert!(
            report
                .findings
                .iter()
                .all(|finding| !finding.remedy.is_empty())
        );
    }
}

#[test]
fn files_of_the_reference_are_sound() {
    let mut checked = 0;
    for folder in ["", "converted", "dtypes"] {
        for entry in data(folder).read_dir().unwrap() {
            let path = entry.unwrap().path();
            let is_file = path.extension().is_some_and(|extension| extension == "tet");
            if !is_file || path.ends_with("labels_65_should_fail.tet") {
                continue;
            }
            let report = deep(&path);
            assert!(report.ok, "{}: {report:#?}", path.display());
            checked += 1;
        }
    }
    assert!(checked > 25, "{checked}");
}

#[test]
fn a_wrong_zone_map_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let mut bytes = fs::read(data("weather_small.tet")).unwrap();
    // Change one digit of the maximum of the first chunk. The reference implementation does not
    // notice.
    let document = bytes
        .windows(8)
        .position(|window| window == b"\"max_le\"")
        .unwrap();
    let digit = document + b"\"max_le\": \"".len();
    bytes[digit] = if bytes[digit] == b'0' { b'1' } else { b'0' };
    fs::write(&path, &bytes).unwrap();
    let report = deep(&path);
    assert!(!report.ok);
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}");
    };
    assert_eq!(
        (finding.check, finding.chunk.as_deref()),
        ("zone_maps", Some(&[0, 0, 0][..]))
    );
    assert!(finding.message.contains("the zone map is"), "{finding:?}");
    // The unchanged file is sound.
    fs::copy(data("weather_small.tet"), &path).unwrap();
    assert!(deep(&path).ok);
}

#[test]
fn verify_reports_its_findings() {
    let sound = tet(&["verify", "weather_small.tet", "--deep"]);
    assert!(sound.status.success());
    assert_eq!(text(&sound.stderr), "");
    insta::assert_snapshot!("verify_sound", text(&sound.stdout));
    let broken = tet(&["verify", "edge/dup_coord_missing_other.tet"]);
    assert_eq!(broken.status.code(), Some(1));
    insta::assert_snapshot!("verify_broken", text(&broken.stdout));
    let json = tet(&["verify", "edge/zstd_empty.tet", "--json"]);
    assert_eq!(json.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["ok"], false);
    assert_eq!(report["findings"][0]["check"], "chunk_decode");
    assert_eq!(report["findings"][0]["chunk"], serde_json::json!([0]));
    let absent = tet(&["verify", "absent.tet"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(text(&absent.stderr).starts_with("error: absent.tet: cannot open"));
    assert_eq!(tet(&["verify"]).status.code(), Some(2));
}

#[test]
fn a_deep_check_accepts_files_of_single_arrays() {
    for name in ["c_order", "fortran_order", "scalar", "texts", "times"] {
        let file = format!("npy/{name}.npy");
        let verified = tet(&["verify", &file, "--deep"]);
        let told = text(&verified.stdout);
        assert_eq!(verified.status.code(), Some(0), "{told}");
        assert!(told.contains(".npy: sound; 1 dataset, 1 chunk\n"), "{told}");
    }
}

#[test]
fn a_dataset_with_a_similar_name_is_suggested() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let target = path.to_str().unwrap();
    for (name, expected) in [
        ("temprature", "; did you mean \"temperature\"?\n"),
        ("wind", "\"\n"),
    ] {
        let refused = tet(&["convert", "weather_small.tet", target, "--dataset", name]);
        let told = text(&refused.stderr);
        assert!(told.contains(&format!("no dataset {name:?}")), "{told}");
        assert!(told.ends_with(expected), "{told}");
    }
}

/// Changing any digit of a secondary index is detected, and the file can be repaired.
#[test]
fn indexes_are_compared_with_cells_and_labels() {
    for (name, kind) in [
        ("dtypes/dtype_u8_zstd.tet", "value_postings"),
        ("weather_small.tet", "value_postings"),
        ("weather_small.tet", "coord_label_postings"),
        ("weather_small.tet", "sorted_axis_range"),
    ] {
        digits_of_an_index(name, kind);
    }
}

fn digits_of_an_index(name: &str, kind: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let sound = fs::read(data(name)).unwrap();
    let find = |what: &[u8], from: usize| {
        let rest = sound[from..].windows(what.len());
        from + rest.take_while(|window| *window != what).count()
    };
    let start = find(format!("\"{kind}\"").as_bytes(), 0);
    let end = find(b"\n    }", start);
    let digits: Vec<usize> = (start..end)
        .filter(|place| sound[*place].is_ascii_digit())
        .collect();
    assert!(digits.len() > 100, "{}", digits.len());
    // A sample of about 40 digits.
    for place in digits.iter().step_by(digits.len() / 40) {
        let mut bytes = sound.clone();
        bytes[*place] = match bytes[*place] {
            b'0' => b'1',
            digit => digit - 1,
        };
        fs::write(&path, bytes).unwrap();
        let report = deep(&path);
        let mut checks = report.checks.iter();
        let check = checks.find(|check| check.name == "secondary_index");
        let is_found = !report.ok && check.unwrap().errors > 0;
        assert!(is_found, "{name}, {kind}: byte {place}");
    }
    let file = path.to_str().unwrap();
    let applied = tet(&["repair", file, "--apply"]);
    assert!(applied.status.success(), "{applied:?}");
    assert!(text(&applied.stdout).starts_with("drop_secondary_index: "));
    assert!(deep(&path).ok);
    // The unchanged file is sound.
    fs::write(&path, &sound).unwrap();
    let report = deep(&path);
    assert!(report.ok, "{report:?}");
    let mut checks = report.checks.iter();
    let check = checks.find(|check| check.name == "secondary_index");
    assert!(check.unwrap().note.contains("compared with their cells"));
}
