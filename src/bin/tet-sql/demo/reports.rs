//! The second demo file: reports of the stations, as documents with a search index.

use super::weather::{BEGINNING, HOURS, STATIONS, pressure};
use std::path::Path;
use tet_sql::Error;
use tet_sql::format::tatami::search::SegmentBuilder;
use tet_sql::format::tatami::{
    ColumnType, FIELD_BLOOM, FIELD_SORT_KEY, Field, InputColumn, InputValues, SEARCH_COLUMNS_KEY,
    Schema, TatamiWriter, WriterOptions,
};

/// The hours from one report of a station to the next.
const INTERVAL: u64 = 6;
/// The names of the stations, in the order of [`STATIONS`].
const NAMES: [&str; STATIONS.len()] = ["Seattle", "Portland", "London", "Tokyo", "Sydney"];
/// The memory for the words.
const WORDS_BYTES: usize = 1 << 20;

/// A report of one station.
struct Report {
    /// Microseconds since 1970.
    time: i64,
    station: &'static str,
    title: String,
    body: String,
}

/// Writes the file.
pub fn write(path: &Path) -> Result<(), Error> {
    let reports = reports();
    let field = |name: &str, column_type, flags| Field {
        name: name.to_owned(),
        column_type,
        flags,
        element_type: 0,
    };
    let fields = vec![
        field("time", ColumnType::TimestampMicros, FIELD_SORT_KEY),
        field("station", ColumnType::String, FIELD_BLOOM),
        field("title", ColumnType::String, 0),
        field("body", ColumnType::String, 0),
    ];
    let options = WriterOptions {
        key_values: vec![(SEARCH_COLUMNS_KEY.to_owned(), "title,body".to_owned())],
        ..WriterOptions::default()
    };
    let mut writer = TatamiWriter::create(path, Schema { fields }, options)?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut words = SegmentBuilder::new(folder, WORDS_BYTES);
    for report in &reports {
        words.add([report.title.as_bytes(), report.body.as_bytes()])?;
    }
    let times: Vec<i64> = reports.iter().map(|report| report.time).collect();
    let texts = [
        texts(&reports, |report| report.station),
        texts(&reports, |report| &report.title),
        texts(&reports, |report| &report.body),
    ];
    let texts = texts.iter().map(|(offsets, data)| InputValues::Bytes32 {
        offsets,
        data: data.as_bytes(),
    });
    let columns = std::iter::once(InputValues::Int64(&times)).chain(texts);
    let columns = columns.map(|values| InputColumn {
        validity: None,
        values,
    });
    writer.write(reports.len(), &columns.collect::<Vec<_>>())?;
    writer.finish_segment(words.finish(None)?.segment())?;
    Ok(())
}

/// Concatenates a text of all reports, and returns the ends of the texts, with 0 in front.
fn texts(reports: &[Report], text: impl Fn(&Report) -> &str) -> (Vec<i32>, String) {
    let (mut offsets, mut data) = (vec![0], String::new());
    for report in reports {
        data.push_str(text(report));
        offsets.push(data.len() as i32);
    }
    (offsets, data)
}

/// Returns the reports in the order of their times.
fn reports() -> Vec<Report> {
    let hours = (0..HOURS).step_by(INTERVAL as usize);
    let all = hours.flat_map(|hour| (0..STATIONS.len()).map(move |station| (hour, station)));
    all.map(|(hour, station)| report(hour, station)).collect()
}

fn report(hour: u64, station: usize) -> Report {
    let (code, _, _, usual) = STATIONS[station];
    let name = NAMES[station];
    let now = pressure(hour, station);
    let change = hour
        .checked_sub(INTERVAL)
        .and_then(|before| Some(now? - pressure(before, station)?));
    let (sky, details) = match now.map(|now| f64::from(now) - usual) {
        None => (
            "no pressure",
            "The barometer failed, so there is no forecast",
        ),
        Some(..-4.0) => ("storm", "Heavy rain and a strong wind from the west"),
        Some(..-1.0) => ("rain", "Low clouds with light rain, and a fresh wind"),
        Some(..2.0) => ("clouds", "Clouds and sun, dry, with little wind"),
        Some(..5.0) => ("sun", "Sun with a few high clouds, and a light wind"),
        Some(_) => (
            "clear sky",
            "Clear sky, no wind, and fog towards the morning",
        ),
    };
    let tendency = match change {
        None => "",
        Some(..-2) => ", falling",
        Some(..=2) => ", steady",
        Some(_) => ", rising",
    };
    let outlook = match change {
        Some(..-2) => " The weather will get worse: expect rain within hours.",
        Some(3..) => " The weather will improve.",
        _ => "",
    };
    let pressure = now.map_or(String::new(), |now| {
        format!(" Pressure {now} hPa{tendency}.")
    });
    Report {
        time: (BEGINNING + hour * 3600) as i64 * 1_000_000,
        station: code,
        title: format!("{name}: {sky}"),
        body: format!("{details}.{pressure}{outlook}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_differ_and_are_in_order() {
        let reports = reports();
        assert_eq!(reports.len(), 40);
        assert!(reports.is_sorted_by_key(|report| report.time));
        for word in [
            "storm", "rain", "sun", "clear", "falling", "rising", "steady",
        ] {
            let found = reports.iter().filter(|report| {
                report.title.contains(word) || report.body.to_lowercase().contains(word)
            });
            assert!((1..30).contains(&found.count()), "{word}");
        }
    }
}
