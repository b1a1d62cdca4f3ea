//! The table of figures.

use std::time::Duration;

use crate::bars::Targets;
use crate::measure::Figures;
use crate::memory::Peak;

const WIDTHS: [usize; 8] = [27, 19, 10, 10, 10, 11, 13, 11];

/// The figures measured so far.
#[derive(Debug, Default)]
pub struct Report {
    lines: Vec<Line>,
    /// The figures measured against performance targets.
    pub bars: Targets,
}

/// A line of the table.
#[derive(Debug)]
pub struct Line {
    pub query: String,
    pub data: String,
    /// The median.
    pub time: Duration,
    pub planning: Option<Duration>,
    pub peak: Option<Peak>,
}

impl Report {
    /// Prints the head of the table and returns an empty report.
    pub fn start() -> Self {
        print_line(&[
            "query",
            "data",
            "median ms",
            "min ms",
            "max ms",
            "planning ms",
            "memory + MiB",
            "peak MiB",
        ]);
        print_line(&["---", "---", "--:", "--:", "--:", "--:", "--:", "--:"]);
        Self::default()
    }

    /// Adds a line and prints it.
    pub fn add(&mut self, query: &str, data: &str, figures: &Figures) {
        let summary = figures.total.summary();
        let [median, min, most] = summary.map(milliseconds);
        let planning = figures.planning.as_ref().map(|times| times.summary()[0]);
        let (growth, peak) = match &figures.peak {
            Some(peak) => {
                let mark = if peak.is_uncertain() { "*" } else { "" };
                (
                    format!("{}{mark}", mebibytes(peak.growth())),
                    mebibytes(peak.peak),
                )
            }
            None => (String::new(), String::new()),
        };
        let planned = planning.map_or_else(String::new, milliseconds);
        print_line(&[query, data, &median, &min, &most, &planned, &growth, &peak]);
        self.lines.push(Line {
            query: query.into(),
            data: data.into(),
            time: summary[0],
            planning,
            peak: figures.peak,
        });
    }

    /// Returns all lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the line of a query on some data.
    pub fn line(&self, query: &str, data: &str) -> Option<&Line> {
        let mut lines = self.lines.iter();
        lines.find(|line| line.query == query && line.data == data)
    }
}

fn print_line(cells: &[&str; 8]) {
    let cells = cells.iter().zip(WIDTHS).enumerate();
    let cells: Vec<_> = cells
        .map(|(column, (cell, width))| match column {
            0 | 1 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        })
        .collect();
    println!("| {} |", cells.join(" | "));
}

fn milliseconds(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1e3;
    match milliseconds {
        0.0..1.0 => format!("{milliseconds:.3}"),
        1.0..100.0 => format!("{milliseconds:.2}"),
        _ => format!("{milliseconds:.0}"),
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 20))
}
