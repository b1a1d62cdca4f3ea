//! The `tet` command.

mod documents;
#[cfg(feature = "tiledb")]
mod tiledb;
mod verify;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use self::verify::reactions;
use serde_json::Value;
use tet_sql::format::tet::verify::{Report, VerifyOptions, verify};
use tet_sql::format::tet::{DatasetSpec, Dtype, TetWriter};
use tetration::catalog::TetPackage;

pub(super) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

pub(super) fn deep(path: &Path) -> Report {
    let options = VerifyOptions {
        deep: true,
        threads: 2,
        ..VerifyOptions::default()
    };
    verify(path, options, &|_, _| {}).unwrap()
}

pub(super) fn tet(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tet"));
    command.current_dir(data(""));
    command.args(arguments).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn info_describes_the_file() {
    let show = |arguments: &[&str]| {
        let shown = tet(arguments);
        assert!(shown.status.success(), "{shown:?}");
        text(&shown.stdout)
    };
    insta::assert_snapshot!("info", show(&["info", "weather_small.tet"]));
    let all = show(&["info", "weather_small.tet", "--all", "-n", "3"]);
    insta::assert_snapshot!("info_all", all);
    let chunks = show(&["info", "weather_small.tet", "--chunks", "-n", "0"]);
    let rows: Value = serde_json::from_str(&show(&[
        "info",
        "weather_small.tet",
        "--all",
        "--json",
        "-n",
        "0",
    ]))
    .unwrap();
    let count = rows["chunk_rows"].as_u64().unwrap() as usize;
    assert_eq!(rows["chunks"].as_array().unwrap().len(), count);
    assert_eq!(chunks.lines().count(), count + 3);
    assert_eq!(rows["datasets"][0]["name"], "temperature");
    // `tet info` shows as much as can be read of a broken file, and where reading fails.
    let broken = tet(&["info", "edge/idx_ver2.tet"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stdout).contains("f32"), "{broken:?}");
    assert!(text(&broken.stderr).contains("index_version is 2, expected 1"));
    for (name, _) in reactions() {
        let file = format!("edge/{name}.tet");
        let shown = tet(&["info", &file, "--all"]);
        assert!(
            matches!(shown.status.code(), Some(0 | 1)),
            "{name}: {shown:?}"
        );
        assert_eq!(shown.status.success(), shown.stderr.is_empty(), "{name}");
    }
}

#[test]
fn repair_changes_only_bytes_after_the_payloads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let file = path.to_str().unwrap();
    let payloads = || fs::read(&path).unwrap()[..72_287].to_vec();
    let before = fs::read(data("weather_small.tet")).unwrap();
    let restart = |change: &dyn Fn(&mut Vec<u8>)| {
        for entry in folder.path().read_dir().unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let mut bytes = before.clone();
        change(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        bytes
    };
    let find = |bytes: &[u8], text: &str| {
        bytes
            .windows(text.len())
            .position(|window| window == text.as_bytes())
            .unwrap()
    };
    // A sound file is left alone, also with `--apply`. The reference implementation removes its
    // metadata there.
    let bytes = restart(&|_| {});
    let sound = tet(&["repair", file, "--apply"]);
    assert!(sound.status.success());
    assert!(text(&sound.stdout).ends_with("sound, nothing to repair\n"));
    assert_eq!(fs::read(&path).unwrap(), bytes);
    for (name, kept, change) in [
        (
            "cut_footer",
            "footer",
            &(|bytes: &mut Vec<u8>| {
                let json = bytes.len() - 20;
                bytes[json] = b'!';
            }) as &dyn Fn(&mut Vec<u8>),
        ),
        ("rebuild_zone_maps", "zone-maps", &|bytes| {
            let digit = find(bytes, "\"max_le\": \"") + 11;
            bytes[digit] = if bytes[digit] == b'0' { b'1' } else { b'0' };
        }),
        ("rebuild_zone_maps", "zone-maps", &|bytes| {
            let place = find(bytes, "\"version\": 1");
            bytes[place] = b'x';
        }),
        ("drop_secondary_index", "secondary-index", &|bytes| {
            let place = find(bytes, "\"indexes\"");
            bytes[place] = b'x';
        }),
    ] {
        let broken = restart(change);
        assert!(!deep(&path).ok, "{name}");
        let plan = tet(&["repair", file]);
        assert!(plan.status.success(), "{plan:?}");
        assert!(
            text(&plan.stdout).starts_with(name),
            "{}",
            text(&plan.stdout)
        );
        assert_eq!(fs::read(&path).unwrap(), broken);
        let applied = tet(&["repair", file, "--apply", "--json"]);
        assert!(applied.status.success(), "{applied:?}");
        let applied: Value = serde_json::from_slice(&applied.stdout).unwrap();
        assert_eq!(applied["steps"][0]["name"], name);
        assert_eq!(applied["report"]["ok"], true, "{applied}");
        assert!(
            deep(&path).ok && crate::formats::reference::verify(&path).ok,
            "{name}"
        );
        assert!(
            folder
                .path()
                .join(format!("a.tet.removed-{kept}-1"))
                .exists(),
            "{name}"
        );
        assert_eq!(folder.path().read_dir().unwrap().count(), 2, "{name}");
        // Payloads are unchanged. The first 16 bytes hold the flags, which change when the footer
        // is removed.
        assert_eq!(payloads()[16..], before[16..72_287], "{name}");
    }
    // Errors in the data are not repaired.
    fs::copy(data("edge/zstd_empty.tet"), &path).unwrap();
    let broken = tet(&["repair", file, "--apply"]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(text(&broken.stdout).contains("1 error, which cannot be repaired"));
}

/// The format has no checksums: a cell outside of its zone map may itself be damaged.
#[test]
fn repair_names_the_chunk_that_does_not_match_its_zone_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let spec = DatasetSpec::new("raw", Dtype::U8, &[4], &[2]);
    let mut writer = TetWriter::create(&path, vec![spec]).unwrap();
    writer.embed_zone_maps();
    writer.write_dataset(0, &[11, 12, 13, 14]).unwrap();
    writer.finish().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let cells = bytes.windows(2).position(|window| window == [13, 14]);
    bytes[cells.unwrap()] = 200;
    fs::write(&path, bytes).unwrap();
    for argument in ["--json", "--apply"] {
        let told = tet(&["repair", path.to_str().unwrap(), argument]);
        assert!(told.status.success(), "{told:?}");
        let told = text(&told.stdout).replace('\\', "");
        assert!(
            told.contains("of dataset \"raw\", chunk [1]: rebuild"),
            "{told}"
        );
        assert!(told.contains("compare them with their source"), "{told}");
    }
}

#[test]
fn stale_publication_locks_are_quarantined() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.tet.d");
    let package = TetPackage::create(&root).unwrap();
    crate::formats::packages::publish(&package, 1, &data("weather_small.tet"));
    for name in ["00000002", "00000003"] {
        let lock = root.join("publishing").join(name);
        fs::create_dir_all(&lock).unwrap();
        fs::write(lock.join("HEARTBEAT"), "1").unwrap();
    }
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    let heartbeat = root.join("publishing/00000002/HEARTBEAT");
    let heartbeat = fs::File::options().write(true).open(heartbeat).unwrap();
    heartbeat.set_modified(old).unwrap();
    let file = root.to_str().unwrap();
    let plan = tet(&["repair", file]);
    assert!(
        text(&plan.stdout).starts_with("quarantine_lock: publishing/00000002"),
        "{plan:?}"
    );
    assert!(root.join("publishing/00000002").exists());
    assert!(tet(&["repair", file, "--apply"]).status.success());
    assert!(!root.join("publishing/00000002").exists());
    assert!(root.join("publishing/00000003").exists());
    assert!(text(&tet(&["repair", file]).stdout).contains("nothing to repair"));
}

/// Repairing a truncated file must not mistake the rest of its last chunk for a footer and cut it
/// off.
#[test]
fn repair_keeps_all_bytes_of_truncated_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let file = path.to_str().unwrap();
    let whole = fs::read(data("weather_small.tet")).unwrap();
    // In the middle of the payload of chunk 2.
    let left = &whole[..13700];
    fs::write(&path, left).unwrap();
    let plan = text(&tet(&["repair", file]).stdout);
    assert!(
        plan.starts_with(
            "clear_footer_flag: the file is truncated to 13700 bytes: the footer is lost, and 114 of 116 chunks"
        ),
        "{plan}"
    );
    assert!(!plan.contains("cut off the"), "{plan}");
    tet(&["repair", file, "--apply"]);
    let kept = fs::read(&path).unwrap();
    assert_eq!(kept.len(), left.len());
    let changed = kept.iter().zip(left).filter(|(one, other)| one != other);
    assert_eq!(changed.count(), 1, "only the flag");
}

#[test]
fn index_writes_and_clears_zone_maps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tet");
    let file = path.to_str().unwrap();
    fs::copy(data("weather_small.tet"), &path).unwrap();
    let zones = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        let bytes = String::from_utf8_lossy(&bytes).into_owned();
        let start = bytes.find("{\n  \"version\": 1")?;
        let end = start + bytes[start..].find("\n}\n")?;
        Some(bytes[start..end].to_string())
    };
    let of_reference = zones(&path);
    assert!(of_reference.is_some());
    assert!(tet(&["index", file, "--clear"]).status.success());
    assert_eq!(zones(&path), None);
    assert!(deep(&path).ok && crate::formats::reference::verify(&path).ok);
    assert!(tet(&["index", file]).status.success());
    assert_eq!(zones(&path), of_reference);
    assert!(deep(&path).ok && crate::formats::reference::verify(&path).ok);
    let shown = text(&tet(&["info", file, "--history", "--layout"]).stdout);
    assert!(
        shown.contains("zone maps") && shown.contains("tet index"),
        "{shown}"
    );
    assert!(!shown.contains("secondary index"));
    // A file without a footer gets one.
    fs::copy(data("edge/ok.tet"), &path).unwrap();
    assert!(tet(&["index", file]).status.success());
    assert!(
        deep(&path)
            .checks
            .iter()
            .any(|check| check.note.contains("compared"))
    );
    let refused = tet(&["index", data("edge/zstd_empty.tet").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn completions_and_manual_pages_are_written() {
    for (arguments, expected) in [
        (["completions", "bash"].as_slice(), "complete -F _tet"),
        (&["completions", "zsh"], "#compdef tet"),
        (&["man"], "tet\\-verify"),
    ] {
        let written = tet(arguments);
        assert!(written.status.success());
        assert!(text(&written.stdout).contains(expected), "{arguments:?}");
    }
    for (arguments, expected) in [
        (["--completions", "fish"].as_slice(), "complete -c tet-sql"),
        (&["--man"], ".TH tet-sql"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
        let written = command.args(arguments).output().unwrap();
        assert!(written.status.success());
        assert!(text(&written.stdout).contains(expected), "{arguments:?}");
    }
}

#[cfg(feature = "zarr")]
#[test]
fn zarr_directories_are_shown_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zarr");
    let store = path.to_str().unwrap();
    let converted = tet(&["convert", "weather_small.tet", store]);
    assert!(converted.status.success(), "{}", text(&converted.stderr));
    let shown = tet(&["info", store, "--all"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    assert!(
        shown.starts_with(&format!("{store}: zarr version 3, ")),
        "{shown}"
    );
    assert!(shown.contains("48 x 10 x 20"), "{shown}");
    assert!(shown.contains("time, lat, lon"), "{shown}");
    let lines = |arguments: &[&str]| {
        let shown = text(&tet(&[&["info", store, "--chunks"], arguments].concat()).stdout);
        shown.lines().map(str::to_string).collect::<Vec<_>>()
    };
    let all = lines(&["-n", "0"]);
    let three = lines(&["-n", "3"]);
    // The lines of all chunks, without the three that are shown.
    let more = all.len() - (three.len() - 1);
    assert_eq!(
        three[three.len() - 1],
        format!("  and {more} more; -n 0 shows all")
    );
    assert!(!all[all.len() - 1].contains("more"), "{all:?}");
    let json: Value = serde_json::from_slice(&tet(&["info", store, "--json"]).stdout).unwrap();
    let datasets = json["datasets"].as_array().unwrap();
    let temperature = datasets
        .iter()
        .find(|dataset| dataset["name"] == "temperature");
    assert_eq!(
        temperature.unwrap()["shape"],
        serde_json::json!([48, 10, 20])
    );
    let verified = tet(&["verify", store, "--deep"]);
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stdout)
    );
    assert!(text(&verified.stdout).contains(": sound; "));
    // Truncate a chunk so that it cannot be decoded.
    let chunks = path.join("temperature/c");
    let mut chunk = chunks;
    while chunk.is_dir() {
        chunk = chunk.read_dir().unwrap().next().unwrap().unwrap().path();
    }
    let bytes = fs::read(&chunk).unwrap();
    fs::write(&chunk, &bytes[..bytes.len() / 2]).unwrap();
    let verified = tet(&["verify", store, "--deep"]);
    assert_eq!(verified.status.code(), Some(1));
    let told = text(&verified.stdout);
    assert!(
        told.contains("1 ERROR ") && told.contains("temperature"),
        "{told}"
    );
    // An array whose metadata are broken is left out, and is not sound.
    fs::write(&chunk, &bytes).unwrap();
    let metadata = path.join("temperature/zarr.json");
    let document = fs::read_to_string(&metadata).unwrap();
    fs::write(&metadata, document.replace("\"shape\"", "\"shaqe\"")).unwrap();
    let verified = tet(&["verify", store]);
    let told = text(&verified.stdout);
    assert_eq!(verified.status.code(), Some(1), "{told}");
    assert!(told.contains("array \"temperature\" is left out"), "{told}");
    // A conversion writes the others, but reports the damage.
    let rest = folder.path().join("rest.zarr");
    let converted = tet(&["convert", store, rest.to_str().unwrap()]);
    let told = text(&converted.stderr);
    assert_eq!(converted.status.code(), Some(1), "{told}");
    assert!(told.contains("array \"temperature\" is left out"), "{told}");
    assert!(rest.join("lat").is_dir() && !rest.join("temperature").exists());
    let latitudes = folder.path().join("lat.npy");
    let selected = format!("{store}#lat");
    let converted = tet(&["convert", &selected, latitudes.to_str().unwrap()]);
    assert_eq!(converted.status.code(), Some(0));
    fs::write(&metadata, document).unwrap();
    let refused = tet(&["index", store]);
    assert!(text(&refused.stderr).contains("tet index accepts only .tet files"));
}

#[test]
fn only_tet_files_are_changed() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes.txt");
    fs::write(&notes, "no arrays").unwrap();
    for command in ["index", "repair"] {
        for path in [folder.path(), &notes] {
            let refused = tet(&[command, path.to_str().unwrap()]);
            assert_eq!(refused.status.code(), Some(1));
            let told = text(&refused.stderr);
            let expected = format!("tet {command} accepts only .tet files and packages");
            assert!(told.contains(&expected), "{told}");
        }
    }
    let broken = folder.path().join("broken.tet");
    fs::write(&broken, "no arrays").unwrap();
    let told = text(&tet(&["repair", broken.to_str().unwrap()]).stdout);
    assert!(told.contains("1 error, which cannot be repaired"), "{told}");
}

#[test]
fn unsupported_files_are_refused_with_the_supported_kinds() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("a.csv");
    fs::write(&csv, "a,b\n1,2\n").unwrap();
    let netcdf = folder.path().join("a.nc");
    fs::write(&netcdf, b"\x89HDF\r\n\x1a\n").unwrap();
    for command in ["info", "verify"] {
        let told = tet(&[command, csv.to_str().unwrap()]);
        assert_eq!(told.status.code(), Some(1));
        let told = text(&told.stderr);
        assert!(
            told.contains(&format!("tet {command} accepts .tet files")),
            "{told}"
        );
        for kind in [
            "Zarr",
            "NetCDF",
            "HDF5",
            ".npz",
            ".tatami files",
            "tatami.manifest",
            "TileDB",
        ] {
            assert!(told.contains(kind), "{kind}: {told}");
        }
        let told = text(&tet(&[command, netcdf.to_str().unwrap()]).stderr);
        assert!(told.contains("a.nc: superblock is unreadable"), "{told}");
    }
}
