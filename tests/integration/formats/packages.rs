//! Packages as published by `tetration`.

use std::path::Path;

use tet_sql::Access;
use tet_sql::format::array::ChunkStatistics;
use tet_sql::format::tet::verify::{Severity, VerifyOptions, verify};
use tet_sql::format::tet::{OpenOptions, TetFile, is_package};
use tetration::catalog::TetPackage;

use crate::support::cells::data;

/// Publishes a file as a generation.
pub fn publish(package: &TetPackage, generation: u64, source: &Path) {
    package.begin_publish(generation).unwrap();
    package
        .seal_generation(generation, source, Vec::new())
        .unwrap();
}

#[test]
fn a_published_generation_stays_open_when_the_next_one_is_published() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    assert!(is_package(&path));
    let open = || TetFile::open(&path, OpenOptions::default());
    let message = open().unwrap_err().to_string();
    assert!(message.contains("no CURRENT file"), "{message}");

    publish(&package, 1, &data("weather_small.tet"));
    let first = open().unwrap();
    publish(&package, 2, &data("specials_f64.tet"));
    let second = open().unwrap();
    assert_eq!(first.generation(), Some(1));
    assert_eq!(second.generation(), Some(2));
    assert_eq!(first.datasets().len(), 3);
    for file in [&first, &second] {
        // The indexes are embedded in the data file. The index documents beside the file have the
        // same content.
        assert!(file.footer().has_zone_maps() && file.footer().has_secondary_index());
        assert_complete(file);
        assert!(file.value_postings(Access::Mmap).unwrap().is_some());
    }
}

fn assert_complete(file: &TetFile) {
    let zones = file.zone_maps(Access::Pread).unwrap().unwrap();
    for dataset in file.datasets() {
        assert!(zones.is_complete(dataset), "{}", dataset.name());
    }
}

#[test]
fn tetration_indexes_of_every_type_pass_verify() {
    let folder = tempfile::tempdir().unwrap();
    let mut files: Vec<_> = data("dtypes")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tet"))
        .collect();
    files.push(data("fill_1e20.tet"));
    assert!(files.len() > 10);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let published = folder.path().join(format!("{name}.d"));
        let package = TetPackage::create(&published).unwrap();
        publish(&package, 1, &path);
        let file = TetFile::open(&published, OpenOptions::default()).unwrap();
        assert_complete(&file);
        file.value_postings(Access::Pread).unwrap();
    }
}

#[tokio::test]
async fn packages_are_queried_like_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    publish(&package, 1, &data("weather_small.tet"));
    let ctx = crate::support::sql::session();
    let quoted = format!("'{}#pressure'", path.display());
    let stations = "WHERE station = 'KSEA'";
    let count = format!("SELECT count(*) FROM {quoted} {stations}");
    assert_eq!(crate::support::sql::rows(&ctx, &count).await, ["48"]);
    // A directory of packages can be registered, and its tables keep the generation that was
    // current then.
    let options = tet_sql::ArrayOptions::new();
    let found = tet_sql::ArraySessionExt::register_array_directory(&ctx, folder.path(), options)
        .await
        .unwrap();
    assert_eq!((found.schemas.len(), found.refused.len()), (1, 0));
    publish(&package, 2, &data("specials_f64.tet"));
    let sql = "SELECT count(*) FROM weather.pressure WHERE station = 'KSEA'";
    assert_eq!(crate::support::sql::rows(&ctx, sql).await, ["48"]);
    // A package that is opened again has the next generation.
    let message = crate::support::sql::error(&ctx, &count).await;
    assert!(message.contains("no dataset \"pressure\""), "{message}");
}

#[test]
fn verify_checks_package_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("weather.tet.d");
    let package = TetPackage::create(&path).unwrap();
    publish(&package, 1, &data("weather_small.tet"));
    let generation = path.join("generations/00000001");
    let manifest = generation.join("MANIFEST.json");
    let before = std::fs::read_to_string(&manifest).unwrap();
    let errors = || {
        let report = verify(&path, VerifyOptions::default(), &|_, _| {}).unwrap();
        let found = report.findings.iter();
        let found = found.filter(|finding| finding.severity == Severity::Error);
        let found: Vec<_> = found
            .map(|one| format!("{}: {}", one.check, one.message))
            .collect();
        assert_eq!(report.ok, found.is_empty());
        found
    };
    assert_eq!(errors(), [""; 0]);
    for (from, to, expected) in [
        ("\"generation\"", "\"generatio\"", "manifest: "),
        (
            "\"packed_byte_len\": ",
            "\"packed_byte_len\": 1",
            "manifest: MANIFEST.json, packed_byte_len is 1",
        ),
        (
            "_sha256\": \"",
            "_sha256\": \"x",
            "package_documents: ZONE.json has the SHA-256 ",
        ),
    ] {
        let changed = before.replace(from, to);
        assert_ne!(changed, before, "{from}");
        std::fs::write(&manifest, changed).unwrap();
        let found = errors();
        assert!(
            found.iter().any(|one| one.starts_with(expected)),
            "{found:?}"
        );
    }
    std::fs::write(&manifest, &before).unwrap();
    let zones = generation.join("ZONE.json");
    std::fs::rename(&zones, generation.join("ZONE.old")).unwrap();
    let [absent] = errors().try_into().unwrap();
    assert_eq!(
        absent,
        "package_documents: ZONE.json is absent, expected as MANIFEST.json says"
    );
    std::fs::remove_file(&manifest).unwrap();
    let [missing] = errors().try_into().unwrap();
    assert!(missing.starts_with("manifest: "), "{missing}");
}
