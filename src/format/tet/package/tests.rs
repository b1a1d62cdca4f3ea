use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::format::array::{ChunkStatistics, ValueIndex};
use crate::format::io::storage::Access;
use crate::format::tet::testing::{append_footer, data};
use crate::format::tet::{OpenOptions, TetFile};

const SHA: &str = "ab12";

/// A package with generations 6 and 7, of which 7 is current. Its data embeds no documents; the
/// documents of a file with the same data lie beside them.
struct Sample {
    folder: TempDir,
}

impl Sample {
    fn new() -> Self {
        let sample = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        sample.write(
            "PROTOCOL",
            r#"{"protocol_version":2,"created_unix":1700000000}"#,
        );
        sample.write("CURRENT", "7\n");
        sample.generation(6);
        sample.generation(7);
        sample
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("weather.tet.d")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // Create a new file, since the old one may be mapped.
        fs::remove_file(&path).ok();
        fs::write(path, content).unwrap();
    }

    fn generation(&self, number: u64) {
        let folder = format!("generations/{number:08}");
        let packed = parts().packed;
        self.manifest(number, packed.len(), SHA);
        self.write(&format!("{folder}/packed.tet"), packed);
        let SplitFile {
            zone_maps, index, ..
        } = parts();
        for (name, document) in [("ZONE.json", zone_maps), ("INDEX.json", index)] {
            self.write(&format!("{folder}/{name}"), sealed(&document, number, SHA));
        }
    }

    fn manifest(&self, number: u64, length: usize, sha: &str) {
        let manifest = format!(
            r#"{{"generation":{number},"protocol_version":2,"part_ids":[],"packed_byte_len":{length},"packed_sha256":"{sha}","zone_maps":"required"}}"#
        );
        self.write(&format!("generations/{number:08}/MANIFEST.json"), manifest);
    }

    fn open(&self) -> Result<TetFile> {
        TetFile::open(self.root(), OpenOptions::default())
    }

    fn refusal(&self) -> String {
        let message = self.open().unwrap_err().to_string();
        assert!(message.starts_with(&self.root().display().to_string()));
        message
    }
}

/// A file of the test data, split into its data and its documents.
struct SplitFile {
    /// The file without its documents.
    packed: Vec<u8>,
    zone_maps: String,
    index: String,
}

fn parts() -> SplitFile {
    let mut bytes = fs::read(data("weather_small.tet")).unwrap();
    let tail = bytes.len() - 16;
    let length = u64::from_le_bytes(bytes[tail..tail + 8].try_into().unwrap());
    let json = &bytes[tail - length as usize..tail];
    let mut footer: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(json).unwrap();
    let [(start, zone_maps), (_, index)] = ["zone_maps_ref", "secondary_index_ref"].map(|key| {
        let reference = footer.remove(key).unwrap();
        let number = |key: &str| reference[key].as_u64().unwrap() as usize;
        let (start, length) = (number("offset"), number("len"));
        let text = bytes[start..start + length].to_vec();
        (start, String::from_utf8(text).unwrap())
    });
    bytes.truncate(start);
    append_footer(&mut bytes, &serde_json::to_string(&footer).unwrap());
    SplitFile {
        packed: bytes,
        zone_maps,
        index,
    }
}

/// Returns the document with the seal of a generation.
fn sealed(document: &str, generation: u64, sha: &str) -> String {
    let generation = format!("\"generation\": {generation},");
    let document = document.replacen("\"generation\": 0,", &generation, 1);
    document.replacen(&"0".repeat(64), sha, 1)
}

#[test]
fn the_current_generation_is_opened() {
    let sample = Sample::new();
    assert!(is_package(&sample.root()));
    assert!(!is_package(sample.folder.path()));
    for (current, expected) in [
        ("7\n", 7),
        (" 00000006 \r\n", 6),
        ("{\"generation\": 7, \"more\": []}\n", 7),
    ] {
        sample.write("CURRENT", current);
        let file = sample.open().unwrap();
        assert_eq!(file.generation(), Some(expected));
        assert_eq!(file.path(), sample.root());
        assert_eq!(file.datasets().len(), 3);
        let name = format!("generations/{expected:08}/packed.tet");
        assert_eq!(file.storage().path(), sample.path(&name));
    }
    let plain = TetFile::open(data("weather_small.tet"), OpenOptions::default()).unwrap();
    assert_eq!(plain.generation(), None);
}

#[test]
fn documents_beside_the_data_are_used() {
    let sample = Sample::new();
    for access in [Access::Mmap, Access::Pread] {
        let file = sample.open().unwrap();
        let zones = file.zone_maps(access).unwrap().unwrap();
        assert!(
            file.datasets()
                .iter()
                .all(|dataset| zones.is_complete(dataset))
        );
        let postings = file.value_postings(access).unwrap().unwrap();
        assert!(postings.of(&file.datasets()[2]).is_some());
    }
    let folder = sample.path("generations/00000007");
    fs::remove_file(folder.join("INDEX.json")).unwrap();
    fs::remove_file(folder.join("ZONE.json")).unwrap();
    let file = sample.open().unwrap();
    assert!(file.zone_maps(Access::Mmap).unwrap().is_none());
    assert!(file.value_postings(Access::Mmap).unwrap().is_none());
}

#[test]
fn embedded_documents_come_first() {
    let sample = Sample::new();
    let embedded = fs::read(data("weather_small.tet")).unwrap();
    sample.write("generations/00000007/packed.tet", embedded);
    sample.write("generations/00000007/ZONE.json", "broken");
    let file = sample.open().unwrap();
    assert!(file.zone_maps(Access::Mmap).unwrap().is_some());
}

#[test]
fn documents_without_the_footer_are_left_unread() {
    let sample = Sample::new();
    let options = OpenOptions {
        ignore_footer: true,
        ..OpenOptions::default()
    };
    let file = TetFile::open(sample.root(), options).unwrap();
    assert!(file.zone_maps(Access::Mmap).unwrap().is_none());
}

#[test]
fn stale_documents_are_refused() {
    let SplitFile {
        packed, zone_maps, ..
    } = parts();
    let length = packed.len();
    let zone = "generations/00000007/ZONE.json";
    let check = |change: &dyn Fn(&Sample), expected: &str| {
        let sample = Sample::new();
        change(&sample);
        let file = sample.open().unwrap();
        let message = file.zone_maps(Access::Mmap).unwrap_err().to_string();
        assert!(message.contains(expected), "{expected}: {message}");
    };
    let manifest = "generations/00000007/MANIFEST.json";
    check(
        &|s| s.write(zone, sealed(&zone_maps, 6, SHA)),
        "generation is 6, expected 7",
    );
    check(
        &|s| s.write(zone, sealed(&zone_maps, 7, "cd")),
        "packed_sha256 is \"cd\", expected \"ab12\"",
    );
    check(
        &|s| s.manifest(7, length, "cd"),
        "packed_sha256 is \"ab12\", expected \"cd\"",
    );
    check(&|s| s.manifest(7, length + 1, SHA), "packed_byte_len is");
    check(
        &|s| s.write(manifest, r#"{"generation":6,"packed_byte_len":1}"#),
        "generation is 6",
    );
    check(
        &|s| s.write(manifest, "[7,1]"),
        "JSON is \"[7,1]\", expected an object",
    );
    check(
        &|s| s.write(manifest, vec![b' '; 2 << 20]),
        "more than 1048576 bytes",
    );
    check(
        &|s| fs::remove_file(s.path(manifest)).unwrap(),
        "cannot open",
    );
    check(&|s| s.write(zone, ""), "unreadable");
    // Hashes are compared only if both the manifest and the document have one.
    let sample = Sample::new();
    sample.write(
        manifest,
        format!(r#"{{"generation":7,"packed_byte_len":{length}}}"#),
    );
    assert!(
        sample
            .open()
            .unwrap()
            .zone_maps(Access::Mmap)
            .unwrap()
            .is_some()
    );
}

#[test]
fn errors_name_absent_and_broken_files() {
    let sample = Sample::new();
    sample.write("CURRENT", "8");
    assert!(
        sample
            .refusal()
            .contains("CURRENT names generations/00000008, which the package does not have")
    );
    fs::create_dir(sample.path("generations/00000008")).unwrap();
    assert!(
        sample
            .refusal()
            .contains("CURRENT names generations/00000008/packed.tet, which")
    );
    for current in [
        "",
        "\n",
        "x",
        "+7",
        "-7",
        "7 7",
        "99999999999999999999",
        "\u{0}7",
    ] {
        sample.write("CURRENT", current);
        let message = sample.refusal();
        assert!(
            message.contains("expected the number of a generation"),
            "{message}"
        );
    }
    for current in [
        "{}",
        "{\"generation\":-1}",
        "{\"generation\":7",
        "{\"generation\":7} 8",
    ] {
        sample.write("CURRENT", current);
        assert!(sample.refusal().contains("unreadable"));
    }
    sample.write("CURRENT", "7".repeat(1 << 20));
    assert!(sample.refusal().contains("more than 65536 bytes"));
    fs::remove_file(sample.path("CURRENT")).unwrap();
    assert!(sample.refusal().contains("no CURRENT file"));
    fs::create_dir(sample.path("CURRENT")).unwrap();
    assert!(sample.refusal().contains("is not a regular file"));
    for (protocol, expected) in [
        (
            "{\"protocol_version\":1}",
            "protocol_version is 1, expected 2",
        ),
        ("{\"protocol_version\":\"2\"}", "unreadable"),
        ("{}", "missing field"),
        ("[2]", "expected an object"),
        ("", "expected an object"),
    ] {
        sample.write("PROTOCOL", protocol);
        let message = sample.refusal();
        assert!(message.contains(expected), "{message}");
    }
    fs::remove_file(sample.path("PROTOCOL")).unwrap();
    assert!(
        sample
            .refusal()
            .contains("directory without a PROTOCOL file")
    );
}

#[test]
fn errors_about_the_data_name_their_file() {
    let sample = Sample::new();
    sample.write("generations/00000007/packed.tet", "TETR");
    assert!(sample.refusal().contains("packed.tet: file length"));
}
