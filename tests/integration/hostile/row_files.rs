//! Damaged files of rows: each is one error that names the file, before anything is allocated for it.

use std::path::Path;

use crate::support::sql::{error, rows, session};

/// Returns the messages of opening a file by its name and by a statement.
async fn messages(path: &Path, format: &str) -> [String; 2] {
    let file = path.display();
    let create = format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{file}'");
    let query = format!("SELECT count(*) FROM '{file}'");
    [
        error(&session(), &query).await,
        error(&session(), &create).await,
    ]
}

#[cfg(feature = "parquet")]
#[tokio::test]
async fn damaged_parquet_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let file = path.display();
    let copy = format!("COPY (SELECT value FROM generate_series(1, 1000)) TO '{file}'");
    rows(&session(), &copy).await;
    let whole = std::fs::read(&path).unwrap();
    for (bytes, expected) in [
        (&b""[..], "the file has 0 bytes, expected \"PAR1\""),
        (b"PAR1", "the file has 4 bytes, expected at least 12"),
        (&whole[..whole.len() / 2], "expected \"PAR1\" at its end"),
        (b"just,some,text\n", "found \"ext\\n\", expected \"PAR1\""),
        (
            b"PAR1xxxxPAR1",
            "its footer has 2021161080 bytes, in a file of 12",
        ),
        (
            b"PAR1xxxxPARE",
            "its footer has 2021161080 bytes, in a file of 12",
        ),
        (b"PAR1\0\0\0\0\x04\0\0\0PAR1", "Parquet error: "),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for message in messages(&path, "PARQUET").await {
            let is_named = message.matches(&format!("{file}: ")).count() == 1;
            assert!(is_named && message.contains(expected), "{message}");
        }
    }
}

#[tokio::test]
async fn damaged_arrow_files_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.arrow");
    let file = path.display();
    let copy = format!("COPY (SELECT value FROM generate_series(1, 1000)) TO '{file}'");
    rows(&session(), &copy).await;
    let whole = std::fs::read(&path).unwrap();
    let end = whole.len();
    // The length of the footer is before the magic at the end.
    let mut long = whole.clone();
    long[end - 10..end - 6].fill(0x7f);
    let mut garbled = whole.clone();
    let length = u32::from_le_bytes(*whole[..end - 6].last_chunk().unwrap());
    garbled[end - 10 - length as usize..end - 10].fill(0xff);
    // A stream begins with the first message, after the magic and its padding, and ends before the footer.
    let start = whole.windows(4).position(|four| four == [0xff; 4]).unwrap();
    let stream = &whole[start..end - 10 - length as usize];
    for (bytes, expected) in [
        (&b""[..], "the file has 0 bytes, expected \"ARROW1\""),
        (&whole[..end / 2], "expected \"ARROW1\" at its end"),
        (b"ARROW1", "expected \"ARROW1\" at its end"),
        (b"just,some,text\n", "found \"just,som\" at its start"),
        (&long[..], "its footer has 2139062143 bytes"),
        (&garbled[..], "its footer cannot be decoded"),
        (&stream[..20], "bytes, in a file of 20 bytes"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        for message in messages(&path, "ARROW").await {
            let is_named = message.matches(&format!("{file}: ")).count() == 1;
            assert!(is_named && message.contains(expected), "{message}");
        }
    }
    std::fs::write(&path, stream).unwrap();
    let found = rows(&session(), &format!("SELECT sum(value) FROM '{file}'")).await;
    assert_eq!(found, ["500500"]);
}
