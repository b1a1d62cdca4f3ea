//! The first demo file: temperature, humidity and pressure as arrays.

use std::error::Error;
use std::f64::consts::TAU;
use std::path::Path;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};

pub const HOURS: u64 = 48;
const LATITUDES: u64 = 19;
const LONGITUDES: u64 = 36;
const HUMIDITY_FILL: f64 = -9999.0;
const PRESSURE_FILL: i16 = i16::MIN;
/// 2024-01-01T00:00:00Z in seconds since 1970.
pub const BEGINNING: u64 = 1_704_067_200;
const ZSTD: Compression = Compression::Zstd { level: 3 };

/// Stations with latitude, longitude and usual pressure in hectopascals.
pub const STATIONS: [(&str, f64, f64, f64); 5] = [
    ("KSEA", 47.4, -122.3, 1017.0),
    ("KPDX", 45.6, -122.6, 1018.0),
    ("EGLL", 51.5, -0.5, 996.0),
    ("RJTT", 35.6, 139.8, 1014.0),
    ("YSSY", -33.9, 151.2, 1010.0),
];

/// Writes the file.
pub fn write(path: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer = TetWriter::create(path, datasets())?;
    writer.push_history("create", "tet-sql --demo", BEGINNING);
    writer.write_dataset(
        0,
        &grid(|hour, lat, lon| (temperature(hour, lat, lon) as f32).to_le_bytes().to_vec()),
    )?;
    writer.write_dataset(
        1,
        &grid(|hour, lat, lon| humidity(hour, lat, lon).to_le_bytes().to_vec()),
    )?;
    writer.write_dataset(2, &pressures())?;
    writer.finish()?;
    Ok(())
}

fn datasets() -> Vec<DatasetSpec> {
    let times: Vec<String> = (0..HOURS).map(time_label).collect();
    let latitudes: Vec<String> = (0..LATITUDES).map(|i| latitude(i).to_string()).collect();
    let longitudes: Vec<String> = (0..LONGITUDES).map(|i| longitude(i).to_string()).collect();
    let on_grid = |name: &str, dtype: Dtype| {
        let shape = [HOURS, LATITUDES, LONGITUDES];
        DatasetSpec::new(name, dtype, &shape, &[12, 10, 12])
            .with_dim_names(["time", "lat", "lon"])
            .with_labels("time", times.clone())
            .with_labels("lat", latitudes.clone())
            .with_labels("lon", longitudes.clone())
    };
    vec![
        on_grid("temperature", Dtype::F32)
            .with_attribute("units", "degC")
            .with_attribute("long_name", "air temperature at 2 m"),
        on_grid("humidity", Dtype::F64)
            .with_compression(ZSTD)
            .with_attribute("units", "%")
            .with_attribute("long_name", "relative humidity at 2 m")
            .with_attribute("_FillValue", &HUMIDITY_FILL.to_string()),
        DatasetSpec::new(
            "pressure",
            Dtype::I16,
            &[HOURS, STATIONS.len() as u64],
            &[24, STATIONS.len() as u64],
        )
        .with_compression(ZSTD)
        .with_dim_names(["time", "station"])
        .with_labels("time", times.clone())
        .with_labels("station", STATIONS.map(|station| station.0))
        .with_attribute("units", "hPa")
        .with_attribute("long_name", "pressure at mean sea level")
        .with_attribute("_FillValue", &PRESSURE_FILL.to_string()),
    ]
}

fn time_label(hour: u64) -> String {
    format!("2024-01-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24)
}

fn latitude(index: u64) -> i64 {
    index as i64 * 10 - 90
}

fn longitude(index: u64) -> i64 {
    index as i64 * 10
}

/// Returns the cells of the grid in row-major order.
fn grid(cell: impl Fn(u64, u64, u64) -> Vec<u8>) -> Vec<u8> {
    let mut cells = Vec::new();
    for hour in 0..HOURS {
        for lat in 0..LATITUDES {
            for lon in 0..LONGITUDES {
                cells.extend(cell(hour, lat, lon));
            }
        }
    }
    cells
}

/// Returns `true` for about one in `every` cells, scattered over the grid.
fn is_missing(hour: u64, lat: u64, lon: u64, every: u64) -> bool {
    (hour * 7_919 + lat * 104_729 + lon * 1_299_709 + 61).is_multiple_of(every)
}

/// Returns the local time of day at a longitude, from 0 at midnight to 1.
fn local_day(hour: u64, longitude: f64) -> f64 {
    (hour as f64 / 24.0 + longitude / 360.0).rem_euclid(1.0)
}

/// The temperature in January: warm at the equator, colder in the north than in the south, and
/// warmest in the afternoon.
fn weather(hour: u64, lat: u64, lon: u64) -> f64 {
    let (degrees_north, degrees_east) = (latitude(lat) as f64, longitude(lon) as f64);
    let north = degrees_north.to_radians();
    let climate = 27.0 - 42.0 * north.sin().powi(2) - 9.0 * north.sin();
    let day = 6.0 * north.cos() * (TAU * (local_day(hour, degrees_east) - 0.625)).cos();
    let front = (3.0 * degrees_east.to_radians() + 2.0 * north - hour as f64 / 16.0).sin();
    climate + day + 2.5 * front * north.cos()
}

/// Degrees Celsius with one decimal. NaN where the sensor failed.
fn temperature(hour: u64, lat: u64, lon: u64) -> f64 {
    if is_missing(hour, lat, lon, 2_003) {
        f64::NAN
    } else {
        (weather(hour, lat, lon) * 10.0).round() / 10.0
    }
}

/// Percent: highest in the tropics and at night.
fn humidity(hour: u64, lat: u64, lon: u64) -> f64 {
    if is_missing(hour, lat, lon + 1, 1_499) {
        return HUMIDITY_FILL;
    }
    let north = (latitude(lat) as f64).to_radians();
    let day = (TAU * (local_day(hour, longitude(lon) as f64) - 0.625)).cos();
    let cloud = (2.0 * (longitude(lon) as f64).to_radians() + hour as f64 / 10.0).sin();
    let percent = 62.0 + 14.0 * north.cos().powi(4) - 11.0 * day * north.cos() + 9.0 * cloud;
    (percent.clamp(5.0, 100.0) * 10.0).round() / 10.0
}

/// The pressure at a station: two tides per day plus slowly passing weather. `None` where the sensor failed.
pub fn pressure(hour: u64, station: usize) -> Option<i16> {
    let (_, north, east, usual) = STATIONS[station];
    let tide = 1.5 * north.to_radians().cos() * (TAU * 2.0 * local_day(hour, east)).sin();
    let passing = 7.0 * (hour as f64 / 15.0 + east.to_radians()).sin();
    let is_missing = is_missing(hour, station as u64, 0, 83);
    (!is_missing).then_some((usual + tide + passing).round() as i16)
}

/// Returns the pressures as stored.
fn pressures() -> Vec<u8> {
    let stations = 0..STATIONS.len();
    let cells = (0..HOURS).flat_map(|hour| stations.clone().map(move |station| (hour, station)));
    let cells = cells.map(|(hour, station)| pressure(hour, station).unwrap_or(PRESSURE_FILL));
    cells.flat_map(i16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(value: impl Fn(u64, u64, u64) -> f64) -> Vec<f64> {
        let bytes = grid(|hour, lat, lon| value(hour, lat, lon).to_le_bytes().to_vec());
        let (cells, _) = bytes.as_chunks::<8>();
        cells.iter().copied().map(f64::from_le_bytes).collect()
    }

    #[test]
    fn temperatures_are_plausible_and_a_few_are_missing() {
        let cells = all(temperature);
        assert_eq!(cells.len() as u64, HOURS * LATITUDES * LONGITUDES);
        let missing = cells.iter().filter(|cell| cell.is_nan()).count();
        assert!((5..100).contains(&missing), "{missing}");
        let mut present = cells.iter().filter(|cell| !cell.is_nan());
        assert!(present.all(|cell| (-40.0..45.0).contains(cell)));
        assert!(temperature(12, 9, 1) > temperature(12, 18, 1) + 20.0);
    }

    #[test]
    fn humidities_are_percentages_and_a_few_are_missing() {
        let cells = all(humidity);
        let missing = cells.iter().filter(|&&cell| cell == HUMIDITY_FILL).count();
        assert!((5..100).contains(&missing), "{missing}");
        let mut present = cells.iter().filter(|&&cell| cell != HUMIDITY_FILL);
        assert!(present.all(|cell| (5.0..=100.0).contains(cell)));
    }

    #[test]
    fn pressures_are_plausible_and_a_few_are_missing() {
        let bytes = pressures();
        let (cells, _) = bytes.as_chunks::<2>();
        let cells: Vec<i16> = cells.iter().copied().map(i16::from_le_bytes).collect();
        assert_eq!(cells.len(), HOURS as usize * STATIONS.len());
        let missing = cells.iter().filter(|&&cell| cell == PRESSURE_FILL).count();
        assert!((1..20).contains(&missing), "{missing}");
        let mut present = cells.iter().filter(|&&cell| cell != PRESSURE_FILL);
        assert!(present.all(|cell| (950..1060).contains(cell)));
    }

    #[test]
    fn times_are_hourly() {
        assert_eq!(time_label(0), "2024-01-01T00:00:00Z");
        assert_eq!(time_label(47), "2024-01-02T23:00:00Z");
    }
}
