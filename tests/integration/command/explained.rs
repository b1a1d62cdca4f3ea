//! EXPLAIN output of the command: a summary sentence, then the plan as text.

use super::*;

const MEAN: &str = "SELECT avg(value) FROM temperature WHERE lat > 20";

/// The number of chunks with latitudes above 20, the number of all chunks, and the stored bytes of
/// the former, according to `tet_chunks`.
fn stored() -> [u64; 3] {
    let sql = "SELECT count(*) FILTER (WHERE greatest(lat_first, lat_last) > 20), count(*), \
               sum(stored_bytes) FILTER (WHERE greatest(lat_first, lat_last) > 20) FROM tet_chunks('temperature')";
    let output = answer(&[WEATHER, "--format", "csv", "-c", ".headers off", "-c", sql]);
    let numbers: Vec<u64> = output
        .trim()
        .split(',')
        .map(|number| number.parse().unwrap())
        .collect();
    numbers.try_into().unwrap()
}

#[test]
fn explain_starts_with_a_summary_sentence() {
    let [read, all, bytes] = stored();
    assert!(0 < read && read < all);
    let size = match bytes {
        0..1024 => format!("{bytes} B"),
        _ => format!("{:.1} KiB", bytes as f64 / 1024.0),
    };
    let sentence =
        format!("reads {read} of {all} chunks, {size}; the mean is computed on stored cells\n\n");
    let explain = format!("EXPLAIN {MEAN}");
    for format in ["table", "box", "line"] {
        let output = answer(&[WEATHER, "--format", format, "-c", &explain]);
        let rest = output.strip_prefix(&sentence);
        let rest = rest.unwrap_or_else(|| panic!("{format}: {output}"));
        assert!(rest.starts_with("logical plan\n  "), "{output}");
        assert!(rest.contains("\n\nphysical plan\n  "), "{output}");
        assert!(
            rest.contains("\n  ArrayAggregateExec: mode=Single"),
            "{output}"
        );
        assert!(
            !rest.contains(['+', '│']) && !rest.contains("\\n"),
            "{output}"
        );
    }
    let output = answer(&[WEATHER, "--format", "markdown", "-c", &explain]);
    assert!(output.starts_with(&sentence), "{output}");
    assert!(output.contains("```text\nArrayAggregateExec"), "{output}");
    let output = answer(&[WEATHER, "-c", &format!(".explain {MEAN}")]);
    assert!(
        output.starts_with(&sentence) && output.contains("┌──"),
        "{output}"
    );
    // Formats for programs return the rows that DataFusion returns.
    let output = answer(&[WEATHER, "--format", "csv", "-c", &explain]);
    assert!(output.starts_with("plan_type,plan\n"), "{output}");
}

#[test]
fn explain_analyze_summarizes_the_reads() {
    let [read, all, _] = stored();
    let output = answer(&[WEATHER, "-c", &format!("EXPLAIN ANALYZE {MEAN}")]);
    assert!(
        output.starts_with(&format!("read {read} of {all} chunks, ")),
        "{output}"
    );
    assert!(
        output.contains("the mean is computed on stored cells"),
        "{output}"
    );
    assert!(output.contains("ArrayAggregateExec"), "{output}");
}

#[test]
fn summary_sentence_describes_the_plan() {
    for (sql, parts) in [
        (
            "SELECT count(*) FROM temperature",
            &["reads nothing: the answer is known"][..],
        ),
        (
            "SELECT max(lat) FROM temperature WHERE lon < 100",
            &["reads no"],
        ),
        (
            "SELECT array_agg(value ORDER BY lat) FROM temperature",
            &["array_agg is computed row by row"],
        ),
        (
            "SELECT t.value FROM temperature t JOIN pressure p ON t.value = p.value",
            &["rows are joined by hash"],
        ),
        (
            "SELECT t.value FROM temperature t JOIN pressure p ON t.time = p.time ORDER BY 1 LIMIT 3",
            &[
                " of temperature (",
                " of pressure",
                "matches of cells are looked up by position",
                "the first 3 rows are kept while sorting",
            ],
        ),
        (
            "SELECT min(value), max(value) FROM temperature WHERE lat > 20",
            &["the minimum and the maximum are computed on stored cells"],
        ),
    ] {
        let output = answer(&[WEATHER, "-c", &format!("EXPLAIN {sql}")]);
        let sentence = output.lines().next().unwrap();
        for part in parts {
            assert!(sentence.contains(part), "{sql}: {sentence}");
        }
    }
    // Plans without arrays have no summary sentence.
    let output = answer(&["-c", "EXPLAIN SELECT 1"]);
    assert!(output.starts_with("logical plan\n"), "{output}");
}
