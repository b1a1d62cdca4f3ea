//! Runs `queries/*.slt`: the cookbook, and golden tests of SQL answers.
//!
//! Every file has a session of its own, configured like those of the `tet-sql` command, with two
//! files registered: `tests/data/weather_small.tet` as the default schema `weather`, and a file of
//! forecasts, written here, as the schema `second`. In the SQL, `${data}` stands for the directory
//! `tests/data`, and `${scratch}` for an empty directory.
//!
//! With the environment variable `TET_SQL_COMPLETE=1`, the expected answers are replaced by those
//! that the program gives. Review the diff: an answer is golden only once its correctness has been
//! checked.

use std::path::{Path, PathBuf};

#[cfg(all(feature = "cluster", feature = "serve"))]
use crate::cluster::{Workers, processes::Worker, use_workers};
#[cfg(feature = "proto")]
use crate::support::encoded::Encoded;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::common::Result;
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::prelude::{SessionConfig, SessionContext};
use sqllogictest::{AsyncDB, ColumnType, DBOutput, Normalizer, Runner, strict_column_validator};
use tempfile::TempDir;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};
use tet_sql::{
    ArrayOptions, ArraySessionExt, ArraySettings, create_logical_plan, enable_arrays,
    execute_logical_plan,
};

/// The minimum size in bytes of a partition in the command's sessions, which is DataFusion's
/// default.
const DEFAULT_MIN_PARTITION_BYTES: usize = 10 << 20;
/// Parts of the errors of plans that are not encoded: they list the session itself, or write files.
#[cfg(feature = "proto")]
const NOT_ENCODED: [&str; 3] = [
    "it lists the session itself",
    "DataSinkExec cannot be encoded",
    "StreamingTableExec cannot be encoded",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries() {
    let open = || Database::open(DEFAULT_MIN_PARTITION_BYTES);
    run(&query_files(), open, is_completing()).await;
}

/// Files as small as these are scanned in a single partition by default. With as many partitions as
/// possible the answers must be the same; only the plans differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_many_partitions() {
    if is_completing() {
        // The files are being rewritten.
        return;
    }
    let mut paths = query_files();
    paths.retain(|path| !path.ends_with("explain.slt"));
    run(&paths, || Database::open(1), false).await;
}

/// Every plan is encoded, and decoded in another session, before it runs or is explained.
#[cfg(feature = "proto")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_decoded_plans() {
    if !is_completing() {
        let open = || async {
            let database = Database::open(DEFAULT_MIN_PARTITION_BYTES).await?;
            Encoded::add_to(&database.ctx, &NOT_ENCODED);
            Ok(database)
        };
        run(&query_files(), open, false).await;
    }
}

/// The cookbook over an object store: the same answers as over local files.
#[cfg(feature = "remote")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_urls() {
    if is_completing() {
        return;
    }
    let mut paths = query_files();
    // Plans and tables about files show where they are.
    let local = ["explain.slt", "introspection.slt"];
    paths.retain(|path| !local.iter().any(|name| path.ends_with(name)));
    run(&paths, Database::over_urls, false).await;
}

/// Scans and aggregates run on two workers, wherever they can be divided.
#[cfg(all(feature = "cluster", feature = "serve"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_a_cluster() {
    if is_completing() {
        return;
    }
    let roots = [data_directory(), std::env::temp_dir()];
    let workers = Workers::start(2, &roots).await;
    run_on(&workers.urls.join(",")).await;
}

/// The workers are processes of their own.
#[cfg(all(feature = "cluster", feature = "serve"))]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_over_worker_processes() {
    if is_completing() {
        return;
    }
    let roots = [data_directory(), std::env::temp_dir()];
    let roots = roots.each_ref().map(PathBuf::as_path);
    let workers = [0, 1].map(|_| Worker::start(&roots, &[]));
    run_on(
        &workers
            .each_ref()
            .map(|worker| worker.url.as_str())
            .join(","),
    )
    .await;
}

/// Runs the cookbook on workers, with as many partitions as possible.
#[cfg(all(feature = "cluster", feature = "serve"))]
async fn run_on(urls: &str) {
    let mut paths = query_files();
    // These show plans and settings.
    paths.retain(|path| !path.ends_with("explain.slt") && !path.ends_with("catalog.slt"));
    let open = || async {
        let database = Database::open(1).await?;
        use_workers(&database.ctx, urls, tet_sql::ClusterAccess::new()).await;
        Ok(database)
    };
    run(&paths, open, false).await;
}

fn is_completing() -> bool {
    std::env::var_os("TET_SQL_COMPLETE").is_some_and(|value| value == "1")
}

fn query_files() -> Vec<PathBuf> {
    let mut paths: Vec<_> = package_folder()
        .join("queries")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "no *.slt files found");
    paths
}

async fn run<F: Future<Output = Result<Database>>>(
    paths: &[PathBuf],
    open: impl Fn() -> F,
    complete: bool,
) {
    let mut failures = Vec::new();
    for path in paths {
        let mut runner = Runner::new(|| async { open().await });
        runner.with_column_validator(strict_column_validator);
        runner.with_normalizer(normalize);
        runner.with_validator(is_equal);
        if complete {
            runner
                .update_test_file(path, " ", is_equal, normalize, strict_column_validator)
                .await
                .unwrap();
        } else if let Err(error) = runner.run_file_async(path).await {
            // The error names the file and the line.
            failures.push(error.to_string());
        }
        runner.shutdown_async().await;
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
}

/// A session over the files of the cookbook.
struct Database {
    ctx: SessionContext,
    /// The directory `tests/data`, or its URL.
    data: String,
    scratch: TempDir,
}

impl Database {
    async fn open(least_partition: usize) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let second = scratch.path().join("second.tet");
        write_second(&second)?;
        let ctx = Self::session(least_partition);
        let weather = data_directory().join("weather_small.tet");
        Self::register(&ctx, &weather, &second).await?;
        let data = data_directory().display().to_string();
        Ok(Self { ctx, data, scratch })
    }

    /// Opens the same files in an object store. What queries write stays local.
    #[cfg(feature = "remote")]
    async fn over_urls() -> Result<Self> {
        use object_store::ObjectStore;
        use object_store::memory::InMemory;

        let scratch = tempfile::tempdir()?;
        let second = scratch.path().join("second.tet");
        write_second(&second)?;
        let store = InMemory::new();
        crate::remote::put_directory(&store, &data_directory()).await;
        crate::remote::put_directory(&store, scratch.path()).await;
        let store: std::sync::Arc<dyn ObjectStore> = std::sync::Arc::new(store);
        let ctx = Self::session(DEFAULT_MIN_PARTITION_BYTES);
        let data = "s3://cookbook".to_string();
        let url =
            url::Url::parse(&data).map_err(|error| DataFusionError::External(error.into()))?;
        ctx.register_object_store(&url, store);
        let [weather, second] =
            ["weather_small.tet", "second.tet"].map(|name| PathBuf::from(format!("{data}/{name}")));
        Self::register(&ctx, &weather, &second).await?;
        Ok(Self { ctx, data, scratch })
    }

    fn session(least_partition: usize) -> SessionContext {
        let mut config = SessionConfig::new()
            .with_information_schema(true)
            .with_option_extension(ArraySettings::default())
            // Fix the number of partitions, since plans depend on it.
            .with_target_partitions(4);
        config.options_mut().optimizer.repartition_file_min_size = least_partition;
        enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new())
    }

    async fn register(ctx: &SessionContext, weather: &Path, second: &Path) -> Result<()> {
        for (schema, path) in [("weather", weather), ("second", second)] {
            ctx.register_array_file_as(schema, path, ArrayOptions::new())
                .await?;
        }
        // Set this only after registration: the session would otherwise have created an empty
        // schema of that name.
        let state = ctx.state_ref();
        state
            .write()
            .config_mut()
            .options_mut()
            .catalog
            .default_schema = "weather".into();
        Ok(())
    }

    /// The placeholders and the directories they stand for.
    fn folders(&self) -> [(&'static str, String); 2] {
        [
            ("${data}", self.data.clone()),
            ("${scratch}", self.scratch.path().display().to_string()),
        ]
    }
}

/// Returns the state of the session without the workers of a cluster. The cookbook shows plans of one process.
fn without_workers(ctx: &SessionContext) -> SessionState {
    #[cfg_attr(not(feature = "cluster"), expect(unused_mut))]
    let mut state = ctx.state();
    #[cfg(feature = "cluster")]
    {
        let extensions = &mut state.config_mut().options_mut().extensions;
        if let Some(settings) = extensions.get_mut::<ArraySettings>() {
            settings.cluster.clear();
        }
    }
    state
}

#[async_trait]
impl AsyncDB for Database {
    type Error = DataFusionError;
    type ColumnType = Column;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Column>> {
        let mut sql = sql.to_string();
        for (placeholder, folder) in self.folders() {
            sql = sql.replace(placeholder, &folder);
        }
        // Create the plan as the command does.
        let plan = create_logical_plan(&self.ctx.state(), &sql).await?;
        let query = match sql.starts_with("EXPLAIN") {
            true => DataFrame::new(without_workers(&self.ctx), plan),
            false => execute_logical_plan(&self.ctx, plan).await?,
        };
        let types: Vec<_> = query
            .schema()
            .fields()
            .iter()
            .map(|field| Column::of(field.data_type()))
            .collect();
        let is_plan = query
            .schema()
            .fields()
            .first()
            .map(|field| field.name().as_str())
            == Some("plan_type");
        let batches = query.collect().await?;
        if types.is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let mut rows = Vec::new();
        for batch in &batches {
            format_rows(batch, &mut rows)?;
        }
        for cell in rows.iter_mut().flatten() {
            // DataFusion omits the leading slash of paths in plans.
            for (placeholder, folder) in self.folders() {
                *cell = cell.replace(folder.trim_start_matches('/'), placeholder);
            }
        }
        if is_plan {
            return Ok(plan_rows(&rows));
        }
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "tet-sql"
    }
}

/// The type of a column, written as a letter after `query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Boolean,
    Date,
    Integer,
    Timestamp,
    Real,
    Text,
    Other,
}

impl Column {
    const ALL: [(char, Self); 7] = [
        ('B', Self::Boolean),
        ('D', Self::Date),
        ('I', Self::Integer),
        ('P', Self::Timestamp),
        ('R', Self::Real),
        ('T', Self::Text),
        ('?', Self::Other),
    ];

    fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(..) => Self::Timestamp,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            data_type if data_type.is_integer() => Self::Integer,
            data_type if data_type.is_floating() => Self::Real,
            _ => Self::Other,
        }
    }
}

impl ColumnType for Column {
    fn from_char(letter: char) -> Option<Self> {
        let known = Self::ALL.iter().find(|(known, _)| *known == letter)?;
        Some(known.1)
    }

    fn to_char(&self) -> char {
        let known = Self::ALL.iter().find(|(_, column)| column == self);
        known.map_or('?', |(letter, _)| *letter)
    }
}

fn format_rows(batch: &RecordBatch, rows: &mut Vec<Vec<String>>) -> Result<()> {
    let options = FormatOptions::new().with_null("NULL");
    let formatters = batch
        .columns()
        .iter()
        .map(|column| ArrayFormatter::try_new(column, &options))
        .collect::<Result<Vec<_>, _>>()?;
    for row in 0..batch.num_rows() {
        let cells = formatters.iter().map(|formatter| {
            let text = formatter.value(row).to_string();
            if text.is_empty() {
                "(empty)".to_string()
            } else {
                text
            }
        });
        rows.push(cells.collect());
    }
    Ok(())
}

/// Formats plans as one row of text per line. The kind of a plan is shown only if there are several
/// plans.
fn plan_rows(plans: &[Vec<String>]) -> DBOutput<Column> {
    let mut rows = Vec::new();
    for plan in plans {
        if plans.len() > 1 {
            rows.push(vec![plan[0].clone()]);
        }
        rows.extend(plan[1].lines().map(|line| vec![line.to_string()]));
    }
    DBOutput::Rows {
        types: vec![Column::Text],
        rows,
    }
}

/// Keeps leading whitespace, since a plan's indentation is significant.
#[expect(clippy::ptr_arg, reason = "a `Normalizer` takes it so")]
fn normalize(line: &String) -> String {
    line.trim_end().to_string()
}

fn is_equal(normalizer: Normalizer, actual: &[Vec<String>], expected: &[String]) -> bool {
    let actual = actual.iter().map(|cells| normalizer(&cells.join(" ")));
    actual.eq(expected.iter().map(normalizer))
}

fn package_folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn data_directory() -> PathBuf {
    package_folder().join("tests/data")
}

/// Writes the second file: forecasts on a part of the first file's grid, and a correction for some
/// of its stations.
///
/// - `temperature` (f64): the 24 hours from noon of the first day, four latitudes and three
///   longitudes, in chunks of 12 x 2 x 3. The forecast for hour `h` of that day at latitude index
///   `i` and longitude index `j` is `h / 2 + i - j / 4`. The very first cell is NaN.
/// - `calibration` (i16, fill value -1): tenths of a hectopascal to add to the pressure of four
///   stations. One of them is not in the first file, and one has no correction.
fn write_second(path: &Path) -> Result<()> {
    let times: Vec<_> = (12..36)
        .map(|hour| format!("2024-01-{:02}T{:02}:00:00Z", 1 + hour / 24, hour % 24))
        .collect();
    let temperature = DatasetSpec::new("temperature", Dtype::F64, &[24, 4, 3], &[12, 2, 3])
        .with_compression(Compression::Zstd { level: 3 })
        .with_dim_names(["time", "lat", "lon"])
        .with_labels("time", times)
        .with_labels("lat", ["-15", "-5", "5", "15"])
        .with_labels("lon", ["0", "18", "36"])
        .with_attribute("units", "degC");
    let calibration = DatasetSpec::new("calibration", Dtype::I16, &[4], &[4])
        .with_dim_names(["station"])
        .with_labels("station", ["KSEA", "KPDX", "EGLL", "LFPG"])
        .with_attribute("_FillValue", "-1");
    let mut writer = TetWriter::create(path, vec![temperature, calibration])?;
    let mut cells = Vec::new();
    for hour in 0..24u8 {
        for lat in 0..4u8 {
            for lon in 0..3u8 {
                let forecast = f64::from(hour) / 2.0 + f64::from(lat) - f64::from(lon) / 4.0;
                cells.extend_from_slice(&forecast.to_le_bytes());
            }
        }
    }
    cells[..8].copy_from_slice(&f64::NAN.to_le_bytes());
    writer.write_dataset(0, &cells)?;
    writer.write_dataset(1, &[5i16, -12, -1, 7].map(i16::to_le_bytes).concat())?;
    writer.finish()?;
    Ok(())
}
