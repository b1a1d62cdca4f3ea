//! A `.tet` file in an application's own DataFusion session, joined with a CSV table.
//!
//! `cargo run --example embed` writes both files into a temporary directory, so you can run it as
//! it is.

use std::error::Error;
use std::path::Path;

use datafusion::prelude::{CsvReadOptions, SessionContext};
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
use tet_sql::{ArrayOptions, ArraySessionExt};

/// The name of each station. The codes are the labels of the array's second axis.
const STATIONS: [(&str, &str); 3] = [("KSEA", "Seattle"), ("EGLL", "London"), ("YSSY", "Sydney")];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let array = folder.path().join("weather.tet");
    let table = folder.path().join("stations.csv");
    write_pressure(&array)?;
    let rows: String = STATIONS
        .iter()
        .map(|(code, city)| format!("{code},{city}\n"))
        .collect();
    std::fs::write(&table, format!("code,city\n{rows}"))?;

    // Any session will do.
    let ctx = SessionContext::new();
    ctx.register_csv("stations", table.to_string_lossy(), CsvReadOptions::new())
        .await?;
    // The file becomes the schema `weather`, its dataset the table `weather.pressure`.
    ctx.register_array_file(&array, ArrayOptions::new()).await?;

    ctx.sql(
        "SELECT s.city, count(p.value) AS readings, avg(p.value) AS mean
         FROM weather.pressure AS p
         JOIN stations AS s ON p.station = s.code
         WHERE p.time >= TIMESTAMP '2024-01-01T12:00:00'
         GROUP BY s.city
         ORDER BY s.city",
    )
    .await?
    .show()
    .await?;
    Ok(())
}

/// Writes a day of hourly pressures at three stations, with the fill value where a reading is
/// missing.
fn write_pressure(path: &Path) -> Result<(), Box<dyn Error>> {
    let hours = 24;
    let dataset = DatasetSpec::new("pressure", Dtype::I16, &[hours, 3], &[12, 3])
        .with_compression(Compression::Zstd { level: 3 })
        .with_dim_names(["time", "station"])
        .with_labels(
            "time",
            (0..hours).map(|hour| format!("2024-01-01T{hour:02}:00:00Z")),
        )
        .with_labels("station", STATIONS.map(|(code, _)| code))
        .with_attribute("units", "0.1 hPa")
        .with_attribute("_FillValue", "-32768");
    let cells: Vec<u8> = (0..hours as i16)
        .flat_map(|hour| {
            [
                10130 + hour,
                10080 - hour,
                if hour == 20 { -32768 } else { 10200 },
            ]
        })
        .flat_map(i16::to_le_bytes)
        .collect();
    let mut writer = TetWriter::create(path, vec![dataset])?;
    writer.write_dataset(0, &cells)?;
    writer.finish()?;
    Ok(())
}
