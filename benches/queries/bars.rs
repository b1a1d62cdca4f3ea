//! Performance targets, and the figures measured against them.

use std::collections::BTreeMap;

use crate::report::Report;

/// For each target, the measured figures with their names.
#[derive(Debug, Default)]
pub struct Targets(BTreeMap<Target, Vec<(String, f64)>>);

/// A performance target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Bandwidth of a query, as a fraction of the probe's.
    Bandwidth,
    /// Time of a fresh process, as a multiple of the probe's in a fresh process.
    FreshProcess,
    /// Time of a grouped average, as a multiple of the average of all cells.
    Grouped,
    /// Time with a bound on the values, as a multiple of the same query without.
    Bounded,
    /// Speed on compressed data, as a fraction of bare decompression.
    Decompression,
    /// Rows per second, as a multiple of Parquet's.
    Rows,
    /// Speed of an average by lat and lon, as a multiple of the speed over Parquet.
    Parquet,
    /// Milliseconds of a small query.
    Small,
    /// Milliseconds of planning over 80,000 chunks.
    PlanningSome,
    /// Milliseconds of planning over a million chunks.
    PlanningAll,
    /// Peak of anonymous memory in mebibytes.
    Memory,
    /// Time of a scan of documents, as a multiple of the time over Parquet.
    Documents,
    /// Milliseconds of a lookup of one document.
    Lookup,
    /// Milliseconds of a search for the ten best documents.
    Search,
    /// Milliseconds of opening a file of documents.
    OpenDocuments,
    /// Mebibytes that a scan of all bodies adds to anonymous memory.
    Bodies,
}

impl Target {
    /// Returns the name, the target value, and `true` if the value is an upper bound.
    fn goal(self) -> (&'static str, f64, bool) {
        match self {
            Self::Bandwidth => (
                "avg, sum, min, max of raw f32 / bandwidth of the probe",
                0.8,
                false,
            ),
            Self::FreshProcess => ("fresh process / probe in a fresh process", 1.5, true),
            Self::Grouped => ("grouped by one or two dimensions, raw / avg", 1.25, true),
            Self::Bounded => ("with a bound on the values, raw / without", 2.0, true),
            Self::Decompression => ("zstd / speed of bare decompression", 0.9, false),
            Self::Rows => ("rows per second / those of Parquet", 3.0, false),
            Self::Parquet => ("speed by lat, lon / that over Parquet", 150.0, false),
            Self::Small => ("a small query, ms", 2.0, true),
            Self::PlanningSome => ("planning over 80,000 chunks, ms", 10.0, true),
            Self::PlanningAll => ("planning over a million chunks, ms", 50.0, true),
            Self::Memory => ("anonymous memory, MiB", 200.0, true),
            Self::Documents => ("scan of documents / the same scan of Parquet", 1.0, true),
            Self::Lookup => ("lookup of one document by id, ms", 0.6, true),
            Self::Search => ("the ten best documents for two words, ms", 5.0, true),
            Self::OpenDocuments => ("opening a file of documents, ms", 1.0, true),
            Self::Bodies => ("memory of a scan of all bodies, MiB", 100.0, true),
        }
    }
}

impl Targets {
    /// Adds a figure.
    pub fn add(&mut self, bar: Target, name: impl Into<String>, figure: f64) {
        self.0.entry(bar).or_default().push((name.into(), figure));
    }

    /// Adds the figures that follow from the lines of the report.
    pub fn add_lines(&mut self, report: &Report, many_chunks: u64) {
        let raw = "raw mmap";
        for (query, bar) in [
            ("rows: *", Target::Rows),
            ("rows: value", Target::Rows),
            ("avg by lat, lon", Target::Parquet),
        ] {
            let lines = report.line(query, raw).zip(report.line(query, "Parquet"));
            if let Some((line, parquet)) = lines {
                let ratio = parquet.time.as_secs_f64() / line.time.as_secs_f64();
                self.add(bar, query, ratio);
            }
        }
        for query in ["count(*)", "slice in one chunk", "slice over four chunks"] {
            if let Some(line) = report.line(query, raw) {
                self.add(Target::Small, query, line.time.as_secs_f64() * 1e3);
            }
        }
        for line in report.lines() {
            let name = format!("{}: {}", line.query, line.data);
            let words: Vec<&str> = line.query.split([' ', ',']).collect();
            let of_chunks = words.windows(2).find(|two| two[1] == "chunks");
            let chunks = of_chunks.and_then(|two| two[0].parse::<u64>().ok());
            if let Some((planning, chunks)) = line.planning.zip(chunks) {
                let bar = if chunks == many_chunks {
                    Target::PlanningAll
                } else {
                    Target::PlanningSome
                };
                self.add(bar, name.as_str(), planning.as_secs_f64() * 1e3);
            }
            if let Some(peak) = line.peak
                && line.data != "Parquet"
            {
                self.add(Target::Memory, name, peak.peak as f64 / f64::from(1 << 20));
            }
        }
    }

    /// Prints each target with the worst figure, or with all that miss it.
    pub fn print(&self) {
        println!("\n| figure | target | worst | of | |\n| --- | --: | --: | --- | --- |");
        for (bar, figures) in &self.0 {
            let (name, asked, is_most) = bar.goal();
            let mut figures: Vec<_> = figures.iter().collect();
            figures.sort_by(|(_, a), (_, b)| {
                if is_most {
                    b.total_cmp(a)
                } else {
                    a.total_cmp(b)
                }
            });
            let is_short = |figure: f64| {
                if is_most {
                    figure > asked
                } else {
                    figure < asked
                }
            };
            let short = figures
                .iter()
                .filter(|(_, figure)| is_short(*figure))
                .count();
            let sign = if is_most { "≤" } else { "≥" };
            for (of, worst) in figures.into_iter().take(short.max(1)) {
                let verdict = if is_short(*worst) { "missed" } else { "" };
                println!("| {name} | {sign} {asked} | {worst:.2} | {of} | {verdict} |");
            }
        }
    }
}
