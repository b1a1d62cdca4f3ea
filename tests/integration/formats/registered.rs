//! A format that is added to a session from outside the crate.
//!
//! A link file contains a line `%LINK` and the name of an array file in the same directory. Opening
//! the link shows the tables of the array file in a group. A directory with a link file called
//! `__link` is a link as well.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::format::array::{ArrayWriter, Dataset, HistoryRow};
use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
use tet_sql::provider::source::BlockSource;
use tet_sql::{
    ArrayOptions, ArraySessionExt, Candidate, Container, ContainerSummary, CreateArrays,
    CreateSettings, Error, Format, FormatRegistry, TableEntry, enable_arrays,
};

use crate::cells;
use crate::support::sql::{error, rows, write};

const MAGIC: &str = "%LINK\n";
const IN_DIRECTORY: &str = "__link";

#[derive(Debug)]
struct LinkFormat;

impl Format for LinkFormat {
    fn name(&self) -> &'static str {
        "link"
    }

    fn keywords(&self) -> &'static [&'static str] {
        &["LINK"]
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["lnk"]
    }

    fn options(&self) -> &'static [&'static str] {
        &["group"]
    }

    fn recognises(&self, candidate: &Candidate<'_>) -> bool {
        candidate.start().starts_with(MAGIC.as_bytes()) || candidate.has_entry(IN_DIRECTORY)
    }

    fn is_found_in_directories(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "lnk")
    }

    fn open(
        &self,
        path: &Path,
        options: &ArrayOptions,
        session: &SessionConfig,
    ) -> Result<Arc<dyn Container>, Error> {
        let invalid = |message: String| Error::Invalid {
            path: path.to_path_buf(),
            message,
        };
        let file = match path.is_dir() {
            true => path.join(IN_DIRECTORY),
            false => path.to_path_buf(),
        };
        let text = std::fs::read_to_string(&file).map_err(|error| invalid(error.to_string()))?;
        let Some(target) = text.strip_prefix(MAGIC) else {
            return Err(invalid("is not a link file".to_string()));
        };
        let target = file.with_file_name(target.trim());
        let inner = FormatRegistry::of(session).open(&target, options, session)?;
        let group = options.format_options.get("group");
        let group = format!("{}/", group.map_or("linked", String::as_str));
        let entries = inner.tables().iter().map(|table| TableEntry {
            name: format!("{group}{}", table.name),
            role: table.role,
        });
        Ok(Arc::new(Link {
            entries: entries.collect(),
            group,
            location: path.display().to_string(),
            warnings: vec![format!("{}: is a link", path.display())],
            inner,
        }))
    }

    fn creator(&self) -> Option<Arc<dyn CreateArrays>> {
        Some(Arc::new(LinkCreator))
    }
}

/// Creates a `.tet` file, and then a link to it.
#[derive(Debug)]
struct LinkCreator;

impl CreateArrays for LinkCreator {
    fn options(&self) -> &'static [&'static str] {
        &["target"]
    }

    fn check_options(&self, options: &BTreeMap<String, String>) -> Result<(), String> {
        match options.get("target").is_some_and(String::is_empty) {
            true => Err("option target is \"\", expected a file name".to_string()),
            false => Ok(()),
        }
    }

    fn create(
        &self,
        path: &Path,
        specs: Vec<DatasetSpec>,
        settings: &CreateSettings,
    ) -> Result<Box<dyn ArrayWriter>, Error> {
        let target = settings.format_options.get("target");
        let target = target.map_or("copied.tet", String::as_str);
        Ok(Box::new(LinkWriter {
            link: path.to_path_buf(),
            text: format!("{MAGIC}{target}\n"),
            target: TetWriter::create(path.with_file_name(target), specs)?,
        }))
    }
}

struct LinkWriter {
    link: PathBuf,
    text: String,
    target: TetWriter,
}

impl ArrayWriter for LinkWriter {
    fn path(&self) -> &Path {
        &self.link
    }

    fn dataset(&self, number: usize) -> Option<&Dataset> {
        ArrayWriter::dataset(&self.target, number)
    }

    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<(), Error> {
        self.target.write_chunk(dataset, chunk, cells)
    }

    fn finish(self: Box<Self>) -> Result<(), Error> {
        self.target.finish()?;
        std::fs::write(&self.link, self.text).map_err(|error| Error::Invalid {
            path: self.link.clone(),
            message: error.to_string(),
        })
    }
}

#[derive(Debug)]
struct Link {
    location: String,
    group: String,
    entries: Vec<TableEntry>,
    warnings: Vec<String>,
    inner: Arc<dyn Container>,
}

impl Container for Link {
    fn format(&self) -> &'static str {
        "link"
    }

    fn location(&self) -> &str {
        &self.location
    }

    fn path(&self) -> Option<&Path> {
        Some(Path::new(&self.location))
    }

    fn tables(&self) -> &[TableEntry] {
        &self.entries
    }

    fn table(&self, name: &str) -> Result<Option<Arc<dyn BlockSource>>, Error> {
        match name.strip_prefix(&self.group) {
            Some("hidden") => Err(Error::Invalid {
                path: PathBuf::from(&self.location),
                message: "the table \"hidden\" is left out, as it is hidden".to_string(),
            }),
            Some(name) => self.inner.table(name),
            None => Ok(None),
        }
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn attributes(&self) -> Vec<(String, String)> {
        vec![("linked_by".to_string(), "a test".to_string())]
    }

    fn summary(&self) -> ContainerSummary {
        let mut summary = ContainerSummary::default();
        summary.version = Some(7);
        summary
    }

    fn history(&self) -> &[HistoryRow] {
        self.inner.history()
    }
}

/// A `.tet` file, two links to it under different names, and a directory that is a link.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let spec = DatasetSpec::new("t2m", Dtype::I32, &[2, 3], &[1, 3]).with_dim_names(["y", "x"]);
    let target = folder.path().join("files");
    std::fs::create_dir(&target).unwrap();
    write(
        &target.join("a.tet"),
        &[(spec, cells!([1i32, 2, 3, 4, 5, 6]))],
    );
    std::fs::create_dir(target.join("store")).unwrap();
    std::fs::copy(target.join("a.tet"), target.join("store/a.tet")).unwrap();
    let text = format!("{MAGIC}a.tet\n");
    for name in ["one.lnk", "two.lnk", "without-extension", "store/__link"] {
        std::fs::write(target.join(name), &text).unwrap();
    }
    folder
}

fn session() -> SessionContext {
    let formats = FormatRegistry::default().with_format(Arc::new(LinkFormat));
    let config = SessionConfig::new()
        .with_target_partitions(1)
        .with_extension(Arc::new(formats));
    enable_arrays(SessionContext::new_with_config(config), ArrayOptions::new())
}

#[tokio::test]
async fn content_decides_before_names() {
    let folder = folder();
    let ctx = session();
    let at = |name: &str| format!("{}/files/{name}", folder.path().display());
    for name in [
        "one.lnk",
        "without-extension",
        "store",
        "store/__link",
        "a.tet",
    ] {
        let query = format!(
            "SELECT count(*), sum(value) FROM '{}' WHERE x > 0",
            at(name)
        );
        assert_eq!(rows(&ctx, &query).await, ["4 16"], "{name}");
    }
    let named = format!("SELECT sum(value) FROM '{}#linked/t2m'", at("store"));
    assert_eq!(rows(&ctx, &named).await, ["21"]);
    // A `.tet` file with the content of a link.
    std::fs::copy(at("one.lnk"), at("odd.tet")).unwrap();
    let query = format!("SELECT sum(value) FROM '{}#linked/t2m'", at("odd.tet"));
    assert_eq!(rows(&ctx, &query).await, ["21"]);
    // A file with the extension of the format, but without its content.
    std::fs::write(at("empty.lnk"), "").unwrap();
    let found = error(&ctx, &format!("SELECT * FROM '{}'", at("empty.lnk"))).await;
    assert!(found.contains("is not a link file"), "{found}");
}

#[tokio::test]
async fn tables_are_created_with_options_of_the_format() {
    let folder = folder();
    let ctx = session();
    let at = |name: &str| format!("{}/files/{name}", folder.path().display());
    let create = |table: &str, format: &str, location: &str, options: &str| {
        let location = at(location);
        format!("CREATE EXTERNAL TABLE {table} STORED AS {format} LOCATION '{location}' {options}")
    };
    for (table, format, location, options, expected) in [
        ("one", "LINK", "one.lnk", "", "21"),
        (
            "grouped",
            "LINK",
            "one.lnk",
            "OPTIONS (group 'g', dataset 'g/t2m')",
            "21",
        ),
        ("other", "TET", "one.lnk", "", "21"),
        ("directory", "LINK", "store", "", "21"),
        ("both", "LINK", "*.lnk", "", "42"),
    ] {
        rows(&ctx, &create(table, format, location, options)).await;
        let found = rows(&ctx, &format!("SELECT sum(value) FROM {table}")).await;
        assert_eq!(found, [expected], "{table}");
    }
    // All files in a directory: two links, and two `.tet` files.
    rows(&ctx, &create("all_files", "LINK", "", "")).await;
    assert_eq!(rows(&ctx, "SELECT sum(value) FROM all_files").await, ["84"]);
    for (options, expected) in [
        (
            "OPTIONS (group 'g', dataset 'linked/t2m')",
            "no dataset \"linked/t2m\"; it has \"g/t2m\"",
        ),
        ("OPTIONS (groups 'g')", "unknown option groups"),
    ] {
        let found = error(&ctx, &create("wrong", "LINK", "one.lnk", options)).await;
        assert!(found.contains(expected), "{found}");
    }
    let found = error(
        &ctx,
        &create("wrong", "TET", "one.lnk", "OPTIONS (group 'g')"),
    )
    .await;
    assert!(found.contains("unknown option group"), "{found}");
}

#[tokio::test]
async fn rows_are_written_in_the_format() {
    let folder = folder();
    let ctx = session();
    let at = |name: &str| format!("{}/files/{name}", folder.path().display());
    let copy = |to: &str, options: &str| {
        let (from, to) = (at("one.lnk"), at(to));
        format!("COPY (SELECT y, x, 2 * value AS v FROM '{from}') TO '{to}' {options}")
    };
    for (to, options, target) in [
        ("made.lnk", "", "copied.tet"),
        (
            "made",
            "STORED AS LINK OPTIONS (target 'other.tet')",
            "other.tet",
        ),
    ] {
        assert_eq!(rows(&ctx, &copy(to, options)).await, ["6"], "{to}");
        for path in [at(to), at(target)] {
            let query = format!("SELECT sum(value) FROM '{path}' WHERE x > 0");
            assert_eq!(rows(&ctx, &query).await, ["32"], "{path}");
        }
    }
    for (options, expected) in [
        (
            "OPTIONS (target '')",
            "option target is \"\", expected a file name",
        ),
        (
            "OPTIONS (zone_maps 'true')",
            "unknown option zone_maps of COPY ... STORED AS LNK, expected one of dims, chunk, compression (or codec), \
             level, dataset, axis_order, fill_value, target, attribute.NAME or attribute.DATASET.NAME",
        ),
    ] {
        let found = error(&ctx, &copy("refused.lnk", options)).await;
        assert!(found.contains(expected), "{found}");
    }
    assert!(!Path::new(&at("refused.lnk")).exists());
    let unknown = copy("refused.lnk", "STORED AS NONSENSE");
    let found = tet_sql::create_logical_plan(&ctx.state(), &unknown).await;
    let found = found.unwrap_err().to_string();
    let expected = "COPY cannot write STORED AS NONSENSE: expected one of LINK, TET, ";
    assert!(found.contains(expected), "{found}");
}

#[tokio::test]
async fn schemas_show_containers() {
    let folder = folder();
    let ctx = session();
    let store = folder.path().join("files/store");
    let schema = ctx
        .register_array_file(&store, ArrayOptions::new())
        .await
        .unwrap();
    assert_eq!(schema.name(), "store");
    assert_eq!(schema.container().format(), "link");
    assert!(schema.container().downcast_ref::<Link>().is_some());
    assert_eq!(
        schema.warnings(),
        [format!("{}: is a link", store.display())]
    );
    let found = rows(
        &ctx,
        "SELECT x, value FROM store.\"linked/t2m\" WHERE y = 1",
    )
    .await;
    assert_eq!(found, ["0 4", "1 5", "2 6"]);
    let found = rows(
        &ctx,
        "SELECT path, format, layout_version, generation, datasets, tables, stored_bytes > 0, warnings, problem \
         FROM tet_files()",
    );
    let path = store.display();
    let expected = format!("{path} link 7 NULL NULL 1 true [{path}: is a link] NULL");
    assert_eq!(found.await, [expected]);
    let found = rows(
        &ctx,
        "SELECT * FROM tet_attributes() WHERE table_name IS NULL",
    )
    .await;
    assert_eq!(found, ["datafusion store NULL NULL NULL linked_by a test"]);
    let found = rows(
        &ctx,
        "SELECT table_name, dataset, cells FROM tet_datasets()",
    )
    .await;
    assert_eq!(found, ["linked/t2m t2m 6"]);
    let found = error(&ctx, "SELECT * FROM store.\"linked/hidden\"").await;
    assert!(found.contains("is left out, as it is hidden"), "{found}");
}

#[tokio::test]
async fn other_sessions_do_not_know_the_format() {
    let folder = folder();
    let ctx = enable_arrays(SessionContext::new(), ArrayOptions::new());
    let path = folder.path().join("files/without-extension");
    let registered = ctx.register_array_file(&path, ArrayOptions::new()).await;
    let found = registered.unwrap_err().to_string();
    let expected = "neither its content nor its name is that of an array format (tet";
    assert!(found.contains(expected), "{found}");
    let create = format!(
        "CREATE EXTERNAL TABLE t STORED AS LINK LOCATION '{}'",
        path.display()
    );
    let found = error(&ctx, &create).await;
    assert!(found.contains("LINK"), "{found}");
}
