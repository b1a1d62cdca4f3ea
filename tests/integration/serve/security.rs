//! Authentication, TLS, and what clients must not be able to do.

use super::*;
use arrow_flight::sql::{CommandStatementIngest, CommandStatementUpdate, ProstMessageExt};
use arrow_flight::{FlightData, FlightDescriptor};
use prost::Message;
use std::path::Path;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

#[tokio::test]
async fn clients_cannot_write() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret.csv");
    std::fs::write(&secret, "word\nswordfish\n").unwrap();
    let path = secret.to_str().unwrap();
    let written = folder.path().join("written.csv");
    let target = written.to_str().unwrap();
    let server = Server::start(&[WEATHER]);
    let mut client = server.client().await;
    for statement in [
        format!("COPY (SELECT 1 AS x) TO '{target}' STORED AS CSV"),
        format!("COPY temperature TO '{target}' STORED AS TET"),
        format!("EXPLAIN ANALYZE COPY (SELECT 1 AS x) TO '{target}' STORED AS CSV"),
        format!("CREATE EXTERNAL TABLE t STORED AS CSV LOCATION '{path}'"),
        "CREATE TABLE t AS SELECT 1 AS x".to_owned(),
        "CREATE VIEW v AS SELECT 1 AS x".to_owned(),
        "CREATE SCHEMA s".to_owned(),
        "DROP TABLE pressure".to_owned(),
        "INSERT INTO pressure SELECT * FROM pressure".to_owned(),
        "SET tet.nan_as_null = false".to_owned(),
        "SET datafusion.runtime.memory_limit = '1G'".to_owned(),
        "PREPARE p AS SELECT 1".to_owned(),
    ] {
        let (code, message) = failure(query(&mut client, &statement).await);
        assert_eq!(code, Code::PermissionDenied, "{statement}: {message}");
        assert!(
            message.starts_with("the server is read-only: "),
            "{message}"
        );
        assert!(client.prepare(statement, None).await.is_err());
    }
    assert!(!written.exists());
    let file = format!("file://{path}");
    let weather = Path::new(env!("CARGO_MANIFEST_DIR")).join(WEATHER);
    let weather = weather.to_str().unwrap();
    let urls = [
        "http://127.0.0.1:1/a.tet",
        "s3://bucket/a.zarr",
        "memory:///a.npy",
    ];
    let member = format!("{weather}#pressure");
    for place in [path, &file, weather, &member].into_iter().chain(urls) {
        for statement in [
            format!("SELECT * FROM '{place}'"),
            format!("DESCRIBE \"{place}\""),
        ] {
            let (code, message) = failure(query(&mut client, &statement).await);
            assert_eq!(code, Code::InvalidArgument, "{statement}: {message}");
            assert!(message.contains("not found"), "{statement}: {message}");
        }
    }
    let update = CommandStatementUpdate {
        query: "DROP TABLE pressure".to_owned(),
        transaction_id: None,
    };
    for command in [update.as_any(), CommandStatementIngest::default().as_any()] {
        let descriptor = FlightDescriptor::new_cmd(command.encode_to_vec());
        let data = FlightData::new().with_descriptor(descriptor);
        let (code, message) = failure(client.do_put(futures::stream::iter([data])).await);
        assert_eq!(code, Code::PermissionDenied, "{message}");
    }
    assert!(client.begin_transaction().await.is_err());
}

/// Someone who can write into a served store may not be allowed to read everything that the server
/// can read.
#[cfg(all(unix, feature = "zarr"))]
#[tokio::test]
async fn links_out_of_a_zarr_store_are_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = tempfile::tempdir().unwrap();
    let (store, secret) = (folder.path().join("s.zarr"), folder.path().join("secret"));
    let array = r#"{"zarr_format": 2, "shape": [2], "chunks": [1], "dtype": "|u1", "compressor": null,
        "fill_value": null, "order": "C", "filters": null}"#;
    std::fs::create_dir_all(store.join("a")).unwrap();
    std::fs::write(store.join(".zgroup"), r#"{"zarr_format": 2}"#).unwrap();
    std::fs::write(store.join("a/.zarray"), array).unwrap();
    std::fs::write(store.join("a/0"), [1]).unwrap();
    std::fs::write(&secret, [42]).unwrap();
    symlink(&secret, store.join("a/1")).unwrap();
    let server = Server::start(&[store.to_str().unwrap()]);
    let mut client = server.client().await;
    let first = query(&mut client, "SELECT value FROM a WHERE dim_0 = 0").await;
    assert!(text(&first.unwrap()).contains("| 1     |"));
    let (_, message) = failure(query(&mut client, "SELECT value FROM a").await);
    assert!(
        message.contains("leads out of the Zarr hierarchy"),
        "{message}"
    );
}

#[tokio::test]
async fn a_token_is_required() {
    let server = Server::start(&[WEATHER, "--token-env", "TET_SQL_TEST_TOKEN"]);
    let sql = "SELECT count(*) FROM pressure";
    let mut client = server.client().await;
    assert_eq!(
        failure(query(&mut client, sql).await).0,
        Code::Unauthenticated
    );
    assert_eq!(
        failure(client.get_catalogs().await).0,
        Code::Unauthenticated
    );
    assert_eq!(
        failure(client.prepare(sql.to_owned(), None).await).0,
        Code::Unauthenticated
    );
    for wrong in ["a-wor", "a-word2", ""] {
        client.set_token(wrong.to_owned());
        assert_eq!(
            failure(query(&mut client, sql).await).0,
            Code::Unauthenticated,
            "{wrong}"
        );
    }
    client.set_token("a-word".to_owned());
    let expected = text(&query(&mut client, sql).await.unwrap());
    let mut client = server.client().await;
    assert!(client.handshake("anybody", "a-wor").await.is_err());
    client.handshake("anybody", "a-word").await.unwrap();
    assert_eq!(text(&query(&mut client, sql).await.unwrap()), expected);
}

#[test]
fn public_addresses_require_a_token_and_tls() {
    for (arguments, expected) in [
        (&["--listen", "0.0.0.0:0"][..], "needs a token"),
        (&["--listen", "0.0.0.0:0", "--insecure"], "needs a token"),
        (
            &["--listen", "0.0.0.0:0", "--token-env", "PATH"],
            "needs TLS",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .arg("serve")
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains(expected), "{message}");
    }
    for (arguments, expected) in [
        (
            &["--token-env", "TET_SQL_NO_SUCH_VARIABLE"][..],
            "TET_SQL_NO_SUCH_VARIABLE",
        ),
        (&["--token-file", "Cargo.toml"], "one word"),
        (
            &["--tls-cert", "Cargo.toml", "--tls-key", "Cargo.toml"],
            "no certificate",
        ),
        (&["absent.tet"], "no such file"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tet-sql"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains(expected) && message.lines().count() == 1,
            "{message}"
        );
    }
}

/// Creates a certificate authority, and certificates signed by it for a server and a client, with
/// the `openssl` command.
fn certificates(folder: &Path) {
    let run = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(folder)
            .output();
        let output = output.expect("this test needs the openssl command");
        assert!(output.status.success(), "{output:?}");
    };
    let key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
    ];
    let authority = [
        "req",
        "-x509",
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    ];
    run(&[&authority[..], &key].concat());
    for name in ["server", "client"] {
        let (request, private, certificate) = (
            format!("{name}.csr"),
            format!("{name}.key"),
            format!("{name}.pem"),
        );
        let subject = format!("/CN={name}");
        run(&[
            &[
                "req", "-subj", &subject, "-keyout", &private, "-out", &request,
            ],
            &key[..],
        ]
        .concat());
        std::fs::write(
            folder.join("names"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
        )
        .unwrap();
        run(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-in",
            &request,
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "names",
            "-out",
            &certificate,
        ]);
    }
}

#[tokio::test]
async fn connections_are_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    certificates(folder.path());
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (certificate, key, authority) = (path("server.pem"), path("server.key"), path("ca.pem"));
    let tls = [
        WEATHER,
        "--connect-limit",
        "5s",
        "--tls-cert",
        &certificate,
        "--tls-key",
        &key,
    ];
    let trusting = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("ca.pem")));
    let known = trusting
        .clone()
        .identity(Identity::from_pem(read("client.pem"), read("client.key")));

    let connect = |server: &Server, tls: Option<ClientTlsConfig>| {
        let (_, rest) = server.address.split_once("grpc+tls://").unwrap();
        let endpoint = match tls {
            Some(tls) => Endpoint::new(format!("https://{rest}"))
                .unwrap()
                .tls_config(tls)
                .unwrap(),
            None => Endpoint::new(format!("http://{rest}")).unwrap(),
        };
        async move {
            let mut client = FlightSqlServiceClient::new(endpoint.connect().await.ok()?);
            query(&mut client, "SELECT count(*) FROM pressure")
                .await
                .ok()
        }
    };
    let server = Server::start(&tls);
    assert!(connect(&server, Some(trusting.clone())).await.is_some());
    assert!(connect(&server, None).await.is_none());
    let distrusting =
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read("client.pem")));
    assert!(connect(&server, Some(distrusting)).await.is_none());
    connections::closed(&mut connections::connect(&server, b"\x16"));

    let server = Server::start(&[&tls[..], &["--tls-client-ca", &authority]].concat());
    assert!(connect(&server, Some(trusting)).await.is_none());
    assert!(connect(&server, Some(known)).await.is_some());
}
