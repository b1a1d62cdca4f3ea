//! One table over many files: a day of hours each, with coordinates in datasets of their own.

use std::path::Path;
use std::sync::Arc;

use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
use tet_sql::{ArrayOptions, open_location};

use crate::measure::{self, Figures, Times};
use crate::options::Options;
use crate::report::Report;
use crate::{Result, session};

/// The numbers of hours, latitudes and longitudes of a file.
const SHAPE: [u64; 3] = [24, 8, 8];

/// Measures opening all files as one table, the first query, which reads the coordinates, and later
/// queries.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let count = options.size.files;
    let data = format!("{count} files");
    if !options.wants(&format!("open as one table, {data}")) {
        return Ok(());
    }
    let folder = tempfile::tempdir_in(&options.folder)?;
    for day in 0..count {
        write(&folder.path().join(format!("{day:06}.tet")), day)?;
    }
    let location = folder.path().to_string_lossy().into_owned();
    let ctx = &session(options, &[]).await?;
    let config = ctx.copied_config();
    let open = || Ok(open_location(&location, &ArrayOptions::new(), &config)?);
    let times = Times::of(options.runs, open)?;
    report.add("open as one table", &data, &Figures::only(times));
    let day = count / 2;
    let slice = format!(
        "SELECT avg(value) FROM files WHERE time >= to_timestamp({}) AND time < to_timestamp({})",
        day * 86_400,
        (day + 1) * 86_400
    );
    ctx.register_table("files", Arc::new(open()?))?;
    let first = {
        let start = std::time::Instant::now();
        ctx.sql(&slice).await?.collect().await?;
        start.elapsed()
    };
    println!(
        "the first slice of one day, which reads all times: {:.1} ms",
        first.as_secs_f64() * 1e3
    );
    for (name, sql) in [
        ("one day of all files", slice.as_str()),
        ("count(*) of all files", "SELECT count(*) FROM files"),
        ("avg of all files", "SELECT avg(value) FROM files"),
        (
            "by place over all files",
            "SELECT lat, lon, avg(value) FROM files GROUP BY lat, lon",
        ),
        (
            "by time over all files",
            "SELECT time, avg(value) FROM files GROUP BY time",
        ),
    ] {
        let (figures, _) = measure::query(ctx, sql, options.runs).await?;
        report.add(name, &data, &figures);
    }
    Ok(())
}

fn write(path: &Path, day: u64) -> Result<()> {
    let [hours, lats, lons] = SHAPE;
    let coordinate = |name: &str, length: u64| {
        DatasetSpec::new(name, Dtype::F64, &[length], &[length]).with_dim_names([name])
    };
    let specs = vec![
        DatasetSpec::new("t2m", Dtype::F32, &SHAPE, &SHAPE).with_dim_names(["time", "lat", "lon"]),
        coordinate("time", hours).with_attribute("units", "hours since 1970-01-01"),
        coordinate("lat", lats),
        coordinate("lon", lons),
    ];
    let mut writer = TetWriter::create(path, specs)?;
    let cells: Vec<u8> = (0..hours * lats * lons)
        .flat_map(|cell| (((cell * 7 + day) % 40) as f32).to_le_bytes())
        .collect();
    writer.write_dataset(0, &cells)?;
    let numbers = |first: u64, length: u64| -> Vec<u8> {
        (first..first + length)
            .flat_map(|number| (number as f64).to_le_bytes())
            .collect()
    };
    writer.write_dataset(1, &numbers(day * hours, hours))?;
    writer.write_dataset(2, &numbers(0, lats))?;
    writer.write_dataset(3, &numbers(0, lons))?;
    writer.finish()?;
    Ok(())
}
