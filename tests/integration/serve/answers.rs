//! Queries and metadata requests, and their answers.

use super::*;
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type, Schema, UInt32Type};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{FlightDescriptor, IpcMessage, SchemaResult};
use datafusion::prelude::SessionContext;
use std::path::Path;
use std::sync::Arc;
use tet_sql::{ArrayOptions, ArraySessionExt, enable_arrays};

#[tokio::test]
async fn answers_are_those_of_the_library() {
    let library = enable_arrays(SessionContext::new(), ArrayOptions::new());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(WEATHER);
    library
        .register_array_file(&path, ArrayOptions::new())
        .await
        .unwrap();
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    for (sql, rows) in [
        (
            "SELECT * FROM weather_small.temperature ORDER BY time, lat, lon",
            9600,
        ),
        (
            "SELECT lat, avg(value), count(*) FROM weather_small.temperature GROUP BY lat ORDER BY lat",
            10,
        ),
        (
            "SELECT station, time, value FROM weather_small.pressure ORDER BY 1, 2 LIMIT 7",
            7,
        ),
        (
            "SELECT arrow_cast('x', 'Utf8View') AS v, arrow_cast('y', 'Dictionary(Int32, Utf8)') AS d",
            1,
        ),
        (
            "SELECT [arrow_cast('x', 'Utf8View')] AS l, named_struct('a', X'00ff') AS s, NULL AS n",
            1,
        ),
        (
            "SELECT * FROM weather_small.temperature WHERE lat > 1000",
            0,
        ),
    ] {
        let answer = query(&mut client, sql).await.unwrap();
        let expected = library.sql(sql).await.unwrap().collect().await.unwrap();
        assert_eq!(
            answer.iter().map(RecordBatch::num_rows).sum::<usize>(),
            rows,
            "{sql}"
        );
        if rows > 0 {
            assert_eq!(text(&answer), text(&expected), "{sql}");
        }
    }
    // The first file is the default schema.
    let answer = query(&mut client, "SELECT count(*) AS n FROM pressure")
        .await
        .unwrap();
    assert_eq!(answer[0]["n"].as_primitive::<Int64Type>().value(0), 240);
}

#[tokio::test]
async fn explain_show_and_describe_are_answered() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    for (sql, expected) in [
        (
            "EXPLAIN SELECT value FROM temperature WHERE lat > 1000",
            "physical_plan",
        ),
        (
            "EXPLAIN ANALYZE SELECT count(value) FROM temperature",
            "Plan with Metrics",
        ),
        ("SHOW TABLES", "pressure"),
        ("SHOW COLUMNS FROM pressure", "station"),
        ("SHOW tet.nan_as_null", "true"),
        ("DESCRIBE temperature", "lon"),
    ] {
        let answer = text(&query(&mut client, sql).await.unwrap());
        assert!(answer.contains(expected), "{sql}\n{answer}");
    }
    for (wrong, expected) in [
        ("SELECT nonsense", Code::InvalidArgument),
        ("SELEKT 1", Code::InvalidArgument),
        ("", Code::InvalidArgument),
        ("SELECT $1", Code::InvalidArgument),
        ("SELECT ?", Code::InvalidArgument),
        ("SELECT 1; SELECT 2", Code::Unimplemented),
    ] {
        let (code, message) = failure(query(&mut client, wrong).await);
        assert_eq!(code, expected, "{wrong}: {message}");
        assert!(!message.is_empty());
    }
}

#[tokio::test]
async fn prepared_statements_take_parameters() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    for sql in [
        "SELECT count(*) AS n FROM temperature WHERE lat < $1 AND lon = $2",
        "SELECT count(*) AS n FROM temperature WHERE lat < ? AND lon = ? -- two?",
    ] {
        let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
        let names: Vec<_> = prepared
            .parameter_schema()
            .unwrap()
            .fields()
            .iter()
            .map(|f| f.name().clone())
            .collect();
        assert_eq!(names, ["$1", "$2"]);
        assert_eq!(
            prepared.dataset_schema().unwrap().field(0).data_type(),
            &DataType::Int64
        );
        let (code, message) = failure(prepared.execute().await);
        assert_eq!(
            (code, message.contains("$1, $2")),
            (Code::InvalidArgument, true),
            "{message}"
        );
        let count = query(
            &mut client,
            "SELECT count(*) AS n FROM temperature WHERE lat < 0.5 AND lon = 18",
        )
        .await;
        let count = count.unwrap()[0]["n"].as_primitive::<Int64Type>().value(0);
        assert!(count > 0);
        // A fraction is compared as a fraction although latitudes are integers. Each row of
        // parameters is one execution.
        let rows = RecordBatch::try_from_iter([
            (
                "a",
                Arc::new(Float64Array::from(vec![0.5, -1000.0])) as ArrayRef,
            ),
            ("b", Arc::new(Int64Array::from(vec![18, 18])) as ArrayRef),
        ]);
        prepared.set_parameters(rows.unwrap()).unwrap();
        let info = prepared.execute().await.unwrap();
        let answer = fetch(&mut client, info).await.unwrap();
        let counts: Vec<i64> = answer
            .iter()
            .flat_map(|b| b["n"].as_primitive::<Int64Type>().values().to_vec())
            .collect();
        assert_eq!(counts, [count, 0]);
        prepared.close().await.unwrap();
    }
    let sql = "SELECT max(value) > $least AS x, $what AS y FROM pressure WHERE station = $what";
    let mut prepared = client.prepare(sql.to_owned(), None).await.unwrap();
    let rows = RecordBatch::try_from_iter([
        (
            "what",
            Arc::new(StringArray::from(vec!["KSEA"])) as ArrayRef,
        ),
        ("least", Arc::new(Int64Array::from(vec![9])) as ArrayRef),
    ]);
    prepared.set_parameters(rows.unwrap()).unwrap();
    let info = prepared.execute().await.unwrap();
    let answer = fetch(&mut client, info).await.unwrap();
    assert_eq!(
        text(&answer),
        "+------+------+\n| x    | y    |\n+------+------+\n| true | KSEA |\n+------+------+"
    );
    let rows =
        RecordBatch::try_from_iter([("one", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    prepared.set_parameters(rows.unwrap()).unwrap();
    let (code, message) = failure(prepared.execute().await);
    assert_eq!(code, Code::InvalidArgument, "{message}");
    assert!(message.contains("2 parameters, but 1"), "{message}");
    let (code, _) = failure(client.prepare("SELECT nonsense".to_owned(), None).await);
    assert_eq!(code, Code::InvalidArgument);
    let many = Arc::new(Int64Array::from(vec![1; 20_000])) as ArrayRef;
    let mut prepared = client.prepare("SELECT ?".to_owned(), None).await.unwrap();
    prepared
        .set_parameters(RecordBatch::try_from_iter([("one", many)]).unwrap())
        .unwrap();
    assert_eq!(failure(prepared.execute().await).0, Code::ResourceExhausted);
}

#[tokio::test]
async fn metadata() {
    let server = Server::start(&[WEATHER, "npy=tests/data/weather_small.npz"]);
    let mut client = server.client().await;
    let info = client.get_catalogs().await.unwrap();
    let catalogs = fetch(&mut client, info).await.unwrap();
    assert_eq!(
        catalogs[0].column(0).as_string::<i32>().value(0),
        "datafusion"
    );
    let pattern = CommandGetDbSchemas {
        catalog: None,
        db_schema_filter_pattern: Some("weather%".to_owned()),
    };
    let info = client.get_db_schemas(pattern).await.unwrap();
    let schemas = fetch(&mut client, info).await.unwrap();
    assert_eq!(
        schemas[0].column(1).as_string::<i32>().value(0),
        "weather_small"
    );
    assert_eq!(schemas[0].num_rows(), 1);

    let tables = CommandGetTables {
        db_schema_filter_pattern: Some("weather_small".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(tables.clone()).await.unwrap();
    let batches = fetch(&mut client, info).await.unwrap();
    let names: Vec<_> = batches[0]["table_name"]
        .as_string::<i32>()
        .iter()
        .flatten()
        .collect();
    assert_eq!(
        names,
        ["humidity", "pressure", "temperature", "time_lat_lon"]
    );
    let schemas = batches[0]["table_schema"].as_binary::<i32>();
    let schema = Schema::try_from(IpcMessage(schemas.value(1).to_vec().into())).unwrap();
    let columns: Vec<_> = schema
        .fields()
        .iter()
        .map(|f| (f.name().as_str(), f.is_nullable()))
        .collect();
    assert_eq!(
        columns,
        [("time", false), ("station", false), ("value", true)]
    );
    assert_eq!(schema.field(1).data_type(), &DataType::Utf8);
    let views = CommandGetTables {
        table_types: vec!["VIEW".to_owned()],
        ..tables
    };
    let info = client.get_tables(views).await.unwrap();
    let batches = fetch(&mut client, info).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    let info = client.get_table_types().await.unwrap();
    let types = fetch(&mut client, info).await.unwrap();
    assert_eq!(text(&types).matches("TABLE").count(), 1);

    let info = client
        .get_sql_info(vec![
            SqlInfo::FlightSqlServerName,
            SqlInfo::FlightSqlServerReadOnly,
        ])
        .await
        .unwrap();
    let about = fetch(&mut client, info).await.unwrap();
    assert_eq!(
        about[0].column(0).as_primitive::<UInt32Type>().values(),
        &[0, 3]
    );
    assert!(text(&about).contains("tet-sql") && text(&about).contains("true"));
    let info = client
        .get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: None })
        .await
        .unwrap();
    assert!(text(&fetch(&mut client, info).await.unwrap()).contains("TIMESTAMP"));

    let table = "pressure".to_owned();
    let primary = CommandGetPrimaryKeys {
        table: table.clone(),
        ..Default::default()
    };
    let exported = CommandGetExportedKeys {
        table: table.clone(),
        ..Default::default()
    };
    let imported = CommandGetImportedKeys {
        table: table.clone(),
        ..Default::default()
    };
    let crossing = CommandGetCrossReference {
        pk_table: table,
        ..Default::default()
    };
    for keys in [
        client.get_primary_keys(primary).await.unwrap(),
        client.get_exported_keys(exported).await.unwrap(),
        client.get_imported_keys(imported).await.unwrap(),
        client.get_cross_reference(crossing).await.unwrap(),
    ] {
        let batches = fetch(&mut client, keys).await.unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    }
}

#[tokio::test]
async fn a_schema_can_be_requested_without_rows() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    let info = client
        .execute("SELECT station, value FROM pressure".to_owned(), None)
        .await
        .unwrap();
    let descriptor: FlightDescriptor = info.flight_descriptor.clone().unwrap();
    let schema: SchemaResult = client
        .inner_mut()
        .get_schema(descriptor)
        .await
        .unwrap()
        .into_inner();
    let schema = Schema::try_from(&schema).unwrap();
    assert_eq!(schema, info.try_decode_schema().unwrap());
}

#[tokio::test]
async fn a_statement_that_runs_again_is_evaluated_again() {
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    let now = "SELECT now() AS now";
    let first = text(&query(&mut client, now).await.unwrap());
    assert_ne!(text(&query(&mut client, now).await.unwrap()), first);
    let mut prepared = client.prepare(now.to_owned(), None).await.unwrap();
    let mut answers = Vec::new();
    for _ in 0..2 {
        let info = prepared.execute().await.unwrap();
        answers.push(text(&fetch(&mut client, info).await.unwrap()));
    }
    assert_ne!(answers[0], answers[1]);
}

#[cfg(feature = "zarr")]
#[tokio::test]
async fn packed_values_are_served_as_the_option_unpack_says() {
    let (_folder, path) = crate::formats::zarr::stores::unpacked("packed_v3.zarr");
    let sql = "SELECT round(min(value), 2) AS v, arrow_typeof(min(value)) AS t FROM t2m";
    for (options, value, data_type) in [
        (&["--unpack", "never"][..], "-2315", "Int16"),
        (&["--unpack", "always"], "250.0", "Float64"),
        (&[], "250.0", "Float64"),
    ] {
        let server = Server::start(&[options, &[path.to_str().unwrap()]].concat());
        let mut client = server.client().await;
        let answer = text(&query(&mut client, sql).await.unwrap());
        let cells: Vec<_> = answer.lines().nth(3).unwrap().split('|').collect();
        let cells: Vec<_> = cells.iter().map(|cell| cell.trim()).collect();
        assert_eq!(cells[1..3], [value, data_type], "{options:?}");
    }
}
