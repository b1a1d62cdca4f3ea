//! The files to query: the same cells in every format.

use std::f64::consts::TAU;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};

use crate::Result;
use crate::options::{Options, Size};

/// Must be incremented when the cells change, so that old files are not reused.
const RECIPE: u32 = 1;
/// The compression level of the zstd file: the default of zstd and of DataFusion's Parquet writer.
pub const ZSTD_LEVEL: i32 = 3;
/// The number of cells per chunk in the file of many chunks.
const MANY_CHUNKS_CELLS: u64 = 10;

/// The paths of the files.
#[derive(Debug)]
pub struct Files {
    pub raw: PathBuf,
    pub zstd: PathBuf,
    pub parquet: PathBuf,
    pub many_chunks: PathBuf,
    /// The file of many chunks, with zone maps.
    pub many_zones: PathBuf,
}

/// Writes the files that do not exist yet. The name of a file encodes its content, and a file gets
/// its name only when it is complete.
pub async fn generate(options: &Options) -> Result<Files> {
    let Size {
        shape: [time, lat, lon],
        many_chunks_side: side,
        ..
    } = options.size;
    let file = |kind: &str| {
        let name = format!("temperature-{RECIPE}-{time}x{lat}x{lon}{kind}");
        options.folder.join(name)
    };
    let files = Files {
        raw: file("-raw.tet"),
        zstd: file("-zstd.tet"),
        parquet: file(".parquet"),
        many_chunks: options
            .folder
            .join(format!("many-chunks-{RECIPE}-{side}x{side}.tet")),
        many_zones: options
            .folder
            .join(format!("many-zones-{RECIPE}-{side}x{side}.tet")),
    };
    std::fs::create_dir_all(&options.folder)?;
    let field = Temperatures::new(&options.size);
    for (path, compression) in [
        (&files.raw, Compression::Raw),
        (&files.zstd, Compression::Zstd { level: ZSTD_LEVEL }),
    ] {
        if is_missing(path) {
            let chunk_shape = options.size.chunk_shape;
            write_array(
                path,
                &options.size,
                chunk_shape,
                Dtype::F32,
                &field,
                compression,
            )?;
        }
    }
    if is_missing(&files.parquet) {
        write_parquet(&files.parquet, &options.size, field).await?;
    }
    for (path, has_zones) in [(&files.many_chunks, false), (&files.many_zones, true)] {
        if is_missing(path) {
            write_many_chunks(path, side, has_zones)?;
        }
    }
    Ok(files)
}

/// Returns the file with the same cells in another layout, and writes it if it does not exist yet.
pub fn layout(
    options: &Options,
    chunk_shape: [u64; 3],
    dtype: Dtype,
    is_compressed: bool,
) -> Result<PathBuf> {
    let [time, lat, lon] = options.size.shape;
    let [a, b, c] = chunk_shape;
    let (codec, compression) = if is_compressed {
        ("zstd", Compression::Zstd { level: ZSTD_LEVEL })
    } else {
        ("raw", Compression::Raw)
    };
    let name = format!("layout-{RECIPE}-{time}x{lat}x{lon}-{a}x{b}x{c}-{dtype}-{codec}.tet");
    let path = options.folder.join(name);
    if is_missing(&path) {
        let field = Temperatures::new(&options.size);
        write_array(
            &path,
            &options.size,
            chunk_shape,
            dtype,
            &field,
            compression,
        )?;
    }
    Ok(path)
}

/// Returns `true` if the file does not exist, and tells the user that it will be written.
pub fn is_missing(path: &Path) -> bool {
    let missing = !path.exists();
    if missing {
        eprintln!("writing {}", path.display());
    }
    missing
}

/// Synthetic temperatures in kelvin: warm around the middle latitude, waves along the longitudes
/// that drift with time, a season, and noise of a tenth of a kelvin that makes the last bits of
/// each value as random as measured ones.
#[derive(Debug, Clone)]
struct Temperatures {
    shape: [u64; 3],
    season: Vec<f64>,
    by_lat: Vec<f64>,
    wave: Vec<f64>,
}

impl Temperatures {
    fn new(size: &Size) -> Self {
        let [time, lat, lon] = size.shape;
        let turn = |position: u64, of: u64| TAU * position as f64 / of as f64;
        Self {
            shape: size.shape,
            season: (0..time).map(|t| 5.0 * turn(t, 365).sin()).collect(),
            by_lat: (0..lat)
                .map(|l| 262.0 + 36.0 * (turn(l, lat) / 2.0).sin())
                .collect(),
            wave: (0..lon).map(|l| 3.0 * (4.0 * turn(l, lon)).sin()).collect(),
        }
    }

    fn value(&self, time: u64, lat: u64, lon: u64) -> f32 {
        let [_, lats, lons] = self.shape;
        // splitmix64, of which one step mixes well enough.
        let mut noise = ((time * lats + lat) * lons + lon).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        noise = (noise ^ (noise >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        noise ^= noise >> 27;
        let noise = (noise >> 40) as f64 / (1u64 << 24) as f64 - 0.5;
        let hemisphere = 1.0 - 2.0 * lat as f64 / lats as f64;
        let value = self.by_lat[lat as usize]
            + hemisphere * self.season[time as usize]
            + self.wave[((lon + time) % lons) as usize]
            + 0.2 * noise;
        value as f32
    }
}

fn write_array(
    path: &Path,
    size: &Size,
    chunk_shape: [u64; 3],
    dtype: Dtype,
    field: &Temperatures,
    compression: Compression,
) -> Result<()> {
    let mut spec = DatasetSpec::new("temperature", dtype, &size.shape, &chunk_shape)
        .with_compression(compression)
        .with_dim_names(["time", "lat", "lon"]);
    if dtype == Dtype::I16 {
        spec = spec.with_attribute("_FillValue", "-32768");
    }
    let mut writer = TetWriter::create(path, vec![spec])?;
    let chunks: [u64; 3] = std::array::from_fn(|axis| size.shape[axis].div_ceil(chunk_shape[axis]));
    let mut cells = Vec::new();
    for number in 0..chunks.iter().product() {
        let chunk = [
            number / (chunks[1] * chunks[2]),
            number / chunks[2] % chunks[1],
            number % chunks[2],
        ];
        let range = |axis: usize| {
            let start = chunk[axis] * chunk_shape[axis];
            start..(start + chunk_shape[axis]).min(size.shape[axis])
        };
        cells.clear();
        for time in range(0) {
            for lat in range(1) {
                for lon in range(2) {
                    let value = field.value(time, lat, lon);
                    match dtype {
                        Dtype::F64 => cells.extend_from_slice(&f64::from(value).to_le_bytes()),
                        // In hundredths of a degree Celsius, one cell in a thousand missing.
                        Dtype::I16 => {
                            let number = (time * size.shape[1] + lat) * size.shape[2] + lon;
                            let packed = if number.is_multiple_of(1000) {
                                i16::MIN
                            } else {
                                ((value - 273.15) * 100.0) as i16
                            };
                            cells.extend_from_slice(&packed.to_le_bytes());
                        }
                        _ => cells.extend_from_slice(&value.to_le_bytes()),
                    }
                }
            }
        }
        writer.write_chunk(0, &chunk, &cells)?;
    }
    writer.finish()?;
    Ok(())
}

fn write_many_chunks(path: &Path, side: u64, has_zones: bool) -> Result<()> {
    let spec = DatasetSpec::new(
        "many_chunks",
        Dtype::F32,
        &[side, side, MANY_CHUNKS_CELLS],
        &[1, 1, MANY_CHUNKS_CELLS],
    )
    .with_dim_names(["a", "b", "c"]);
    let mut writer = TetWriter::create(path, vec![spec])?;
    if has_zones {
        writer.embed_zone_maps();
    }
    for a in 0..side {
        for b in 0..side {
            let value = (a * side + b) as f32;
            let cells = value.to_le_bytes().repeat(MANY_CHUNKS_CELLS as usize);
            writer.write_chunk(0, &[a, b, 0], &cells)?;
        }
    }
    writer.finish()?;
    Ok(())
}

/// Writes the rows ordered by time, lat, lon, one latitude after another, with the writer's default
/// settings.
async fn write_parquet(path: &Path, size: &Size, field: Temperatures) -> Result<()> {
    let schema = Arc::new(Schema::new(vec![
        Field::new("time", DataType::Int64, false),
        Field::new("lat", DataType::Int64, false),
        Field::new("lon", DataType::Int64, false),
        Field::new("value", DataType::Float32, false),
    ]));
    let rows = Rows {
        schema: Arc::clone(&schema),
        shape: size.shape,
        field,
    };
    let table = StreamingTable::try_new(schema, vec![Arc::new(rows)])?;
    // With this extension, DataFusion writes a single file.
    let unfinished = path.with_extension("unfinished.parquet");
    let Some(target) = unfinished.to_str() else {
        return Err(format!("{} is not valid UTF-8", unfinished.display()).into());
    };
    let frame = SessionContext::new().read_table(Arc::new(table))?;
    let write = DataFrameWriteOptions::new().with_single_file_output(true);
    frame.write_parquet(target, write, None).await?;
    std::fs::rename(&unfinished, path)?;
    Ok(())
}

/// The cells as a stream of rows, generated as the stream is read.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    shape: [u64; 3],
    field: Temperatures,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let [times, lats, lons] = self.shape;
        let schema = Arc::clone(&self.schema);
        let field = self.field.clone();
        // One batch per time and eight latitudes, which is 4096 rows at full size.
        let batches = (0..times * lats / 8).map(move |number| {
            let time = number / (lats / 8);
            let first_lat = number % (lats / 8) * 8;
            let positions = || {
                let lats = first_lat..first_lat + 8;
                lats.flat_map(move |lat| (0..lons).map(move |lon| (lat, lon)))
            };
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(vec![time as i64; (8 * lons) as usize])),
                Arc::new(
                    positions()
                        .map(|(lat, _)| lat as i64)
                        .collect::<Int64Array>(),
                ),
                Arc::new(
                    positions()
                        .map(|(_, lon)| lon as i64)
                        .collect::<Int64Array>(),
                ),
                Arc::new(
                    positions()
                        .map(|(lat, lon)| field.value(time, lat, lon))
                        .collect::<Float32Array>(),
                ),
            ];
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        });
        let stream = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            stream,
        ))
    }
}
