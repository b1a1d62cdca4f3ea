//! Names of tables, the information schema, and views.

use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use tet_sql::{ArrayOptions, enable_arrays};

use crate::formats::reference::Reference;
use crate::support::cells::data;
use crate::support::sql::{error, open, rows};

#[tokio::test]
async fn table_arguments_accept_sql_names() {
    let ctx = open(&data("weather_small.tet"), ArrayOptions::new()).await;
    let count = async |name: &str| {
        let sql = format!("SELECT count(*) FROM tet_chunks('{name}')");
        rows(&ctx, &sql).await.remove(0)
    };
    let expected = count("temperature").await;
    let path = data("weather_small.tet").display().to_string();
    let by_path = format!("{path}#temperature");
    for name in [
        "f.temperature",
        "datafusion.f.temperature",
        "Temperature",
        "\"temperature\"",
        &by_path,
    ] {
        assert_eq!(count(name).await, expected, "{name}");
    }
    for (name, expected) in [
        (
            "g.temperature",
            "table 'datafusion.g.temperature' not found",
        ),
        ("nowhere.tet#t", "nowhere.tet: no such file"),
        (&path, "has 4 tables"),
    ] {
        let sql = format!("SELECT * FROM tet_chunks('{name}')");
        let message = error(&ctx, &sql).await;
        assert!(message.contains(expected), "{message}");
    }
    for arguments in ["", "'a', 'b'", "NULL"] {
        let message = error(&ctx, &format!("SELECT * FROM tet_chunks({arguments})")).await;
        assert!(message.contains("takes the name of a table"), "{message}");
    }
}

#[tokio::test]
async fn information_schema_has_units_and_descriptions() {
    let ctx = open(&data("weather_small.tet"), ArrayOptions::new()).await;
    let reference = Reference::open(&data("weather_small.tet"));
    let metadata = &reference.summary.metadata.datasets;
    let mut expected: Vec<_> = metadata
        .iter()
        .filter_map(|(name, metadata)| {
            let units = metadata.attrs.get("units")?;
            Some(format!("{name} value {units}"))
        })
        .collect();
    expected.sort();
    let sql = "SELECT table_name, column_name, units FROM information_schema.columns WHERE units IS NOT NULL AND \
               table_name <> 'time_lat_lon' ORDER BY table_name";
    assert_eq!(rows(&ctx, sql).await, expected);
    // Through a view, by an alias, with a catalog name, and beside a table that is not an array.
    ctx.sql("CREATE VIEW warm AS SELECT lat, value FROM temperature WHERE value > 20")
        .await
        .unwrap();
    ctx.sql("CREATE TABLE plain AS SELECT 1 AS a")
        .await
        .unwrap();
    let units = &metadata["temperature"].attrs["units"];
    let sql = "SELECT c.column_name, c.units FROM datafusion.information_schema.columns AS c \
               WHERE c.table_name IN ('warm', 'plain') ORDER BY c.column_name";
    assert_eq!(
        rows(&ctx, sql).await,
        ["a NULL", "lat NULL", &format!("value {units}")]
    );
    let sql = "SELECT units FROM information_schema.tables WHERE table_name = 'temperature'";
    assert_eq!(rows(&ctx, sql).await, [units.as_str()]);
    // DataFusion's own columns and the other tables of the information schema are unchanged.
    let plain = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
    for table in ["columns", "tables", "views", "schemata"] {
        let sql = format!("SELECT * FROM information_schema.{table}");
        let names = async |ctx: &SessionContext| -> Vec<String> {
            let frame = ctx.sql(&sql).await.unwrap();
            let fields = frame.schema().fields().iter();
            fields.map(|field| format!("{field:?}")).collect()
        };
        let (own, with) = (names(&plain).await, names(&ctx).await);
        assert_eq!(with[..own.len()], own, "{table}");
        let added = if ["columns", "tables"].contains(&table) {
            2
        } else {
            0
        };
        assert_eq!(with.len(), own.len() + added, "{table}");
    }
    // A common table expression may have the name of a table of the information schema.
    let sql = "WITH tables AS (SELECT 1 AS a) SELECT * FROM tables";
    assert_eq!(rows(&ctx, sql).await, ["1"]);
    // The information schema can be switched off.
    let ctx = enable_arrays(SessionContext::new(), ArrayOptions::new());
    let message = error(&ctx, "SELECT * FROM information_schema.tables").await;
    assert!(message.contains("not found"), "{message}");
}

#[tokio::test]
async fn views_over_the_functions_do_not_keep_the_session() {
    let ctx = open(&data("weather_small.tet"), ArrayOptions::new()).await;
    let catalogs = Arc::downgrade(ctx.state_ref().read().catalog_list());
    ctx.sql("CREATE VIEW files AS SELECT * FROM tet_files()")
        .await
        .unwrap();
    ctx.sql("CREATE VIEW chunks AS SELECT * FROM tet_chunks('temperature')")
        .await
        .unwrap();
    let sql = "SELECT (SELECT count(*) FROM files), (SELECT count(*) > 1 FROM chunks)";
    assert_eq!(rows(&ctx, sql).await, ["1 true"]);
    drop(ctx);
    assert!(catalogs.upgrade().is_none());
}
