//! Documents of references, whose chunks are parts of local and remote files.

use serde_json::json;
use tet_sql::ArrayOptions;
use tet_sql::ArraySessionExt;

use crate::cells;
use crate::remote::session;
use crate::support::http::HttpServer;
use crate::support::sql::{error, rows};

/// The metadata of version 2 of an array of 4 x 3 cells in chunks of 2 x 3.
fn array() -> serde_json::Value {
    json!({
        "zarr_format": 2, "shape": [4, 3], "chunks": [2, 3], "dtype": "<f4", "fill_value": 9.0,
        "order": "C", "filters": null, "compressor": null,
    })
}

#[tokio::test]
async fn references_open_as_the_hierarchy_that_they_describe() {
    let folder = tempfile::tempdir().unwrap();
    let data = [vec![0; 10], cells!((0..6).map(|cell| cell as f32))].concat();
    std::fs::write(folder.path().join("data.bin"), &data).unwrap();
    let server = HttpServer::start();
    server.put("data.bin", data);
    let document = |target: &str, second: serde_json::Value| {
        let array = array().to_string();
        json!({"version": 1, "templates": {"u": target}, "refs": {
            ".zgroup": "{\"zarr_format\": 2}",
            "t/.zarray": array,
            "t/.zattrs": {"_ARRAY_DIMENSIONS": ["y", "x"], "units": "K"},
            "t/0.0": ["{{u}}", 10, 24],
            "t/1.0": second,
        }})
        .to_string()
    };
    let zeros = json!(format!("base64:{}", "A".repeat(32)));
    let local = folder.path().join("refs.json");
    let url = server.url("data.bin");
    for (name, target, second, expected) in [
        ("refs.json", "data.bin", zeros.clone(), "15.0 12"),
        ("other.json", url.as_str(), zeros, "15.0 12"),
        (
            "again.json",
            "data.bin",
            json!(["{{u}}", 10, 24]),
            "30.0 12",
        ),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, document(target, second)).unwrap();
        let ctx = session();
        let query = format!(
            "SELECT sum(value), count(*) FROM '{}' WHERE x >= 0",
            path.display()
        );
        assert_eq!(rows(&ctx, &query).await, [expected], "{name}");
        ctx.register_array_file(&path, ArrayOptions::new())
            .await
            .unwrap();
    }
    // An absent reference is an absent chunk.
    let ctx = session();
    let mut sparse: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&local).unwrap()).unwrap();
    sparse["refs"].as_object_mut().unwrap().remove("t/1.0");
    server.put("sparse.json", sparse.to_string().replace("data.bin", &url));
    let query = format!(
        "SELECT y, max(value) FROM '{}#t' GROUP BY y ORDER BY y",
        server.url("sparse.json")
    );
    assert_eq!(
        rows(&ctx, &query).await,
        ["0 2.0", "1 5.0", "2 NULL", "3 NULL"]
    );
    // A document from elsewhere does not lead to local files.
    server.put("local.json", document("/etc/hostname", json!("")));
    let message = error(
        &ctx,
        &format!("SELECT * FROM '{}#t'", server.url("local.json")),
    )
    .await;
    assert!(message.contains("expected a URL"), "{message}");
    server.delete("data.bin");
    let table = format!(
        "SELECT value FROM '{}#t' WHERE y = 0 AND value > 100",
        server.url("sparse.json")
    );
    // A missing target reads as an absent chunk, as in fsspec.
    assert_eq!(rows(&ctx, &table).await.len(), 0);
}
