//! Writing that fails ends in a one-line error that says where and why, with the old file untouched
//! and no other file left.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::jobs::{Job, convert_jobs, copy_jobs, index_and_repair_jobs};
use super::number;
use crate::tables::exploded::Random;

/// Bytes per unit of `ulimit -f`. Some shells use units of 1024 bytes.
const UNIT: u64 = 512;

#[test]
fn copies_beyond_a_quota_fail_cleanly() {
    fail_all(copy_jobs);
}

#[test]
fn conversions_beyond_a_quota_fail_cleanly() {
    fail_all(convert_jobs);
}

#[test]
fn index_and_repair_beyond_a_quota_fail_cleanly() {
    fail_all(index_and_repair_jobs);
}

fn fail_all(jobs: fn(&Path) -> Vec<Job>) {
    let folder = tempfile::tempdir().unwrap();
    let limits = number("TET_SQL_LIMITS", 4);
    for job in jobs(folder.path()) {
        let largest = job.new.values().map(Vec::len).max().unwrap() as u64;
        let mut failed = 0;
        for seed in 0..limits {
            let mut random = Random(seed + 1);
            let limit = match seed {
                0 => 0,
                _ => random.below((largest / UNIT) as usize + 8) as u64,
            };
            job.restore();
            let script = format!("trap '' XFSZ; ulimit -f {limit}");
            let output = job.command_after(&script).output().unwrap();
            let what = format!("at most {limit} blocks");
            failed += u64::from(!check(&job, &output, "File too large", &what));
        }
        assert!(failed > 0, "{}", job.name);
        eprintln!("{}: {failed} of {limits} limits", job.name);
    }
}

/// Returns `true` if a run succeeded. Otherwise the run must have failed cleanly, for this reason.
fn check(job: &Job, output: &Output, reason: &str, what: &str) -> bool {
    let what = format!("{}, {what}", job.name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(job.rest(), [""; 0], "{what}: {said}");
    assert_eq!(job.spill.read_dir().unwrap().count(), 0, "{what}: {said}");
    let is_new = job.is_new(&what);
    if output.status.success() {
        assert!(is_new, "{what}");
        return true;
    }
    assert!(!is_new, "{what}");
    assert_eq!(output.status.code(), Some(1), "{what}: {said}");
    assert_eq!(said.lines().count(), 1, "{what}: {said}");
    assert!(said.starts_with("error: "), "{what}: {said}");
    let target = job.target.to_str().unwrap();
    // The failed write may also be to a spill file.
    let spill = job.spill.to_str().unwrap();
    assert!(
        said.contains(target) || said.contains(spill),
        "{what}: {said}"
    );
    assert!(said.contains(reason), "{what}: {said}");
    false
}

/// A small file system in memory, unmounted on drop.
struct TmpfsMount(PathBuf);

impl TmpfsMount {
    /// Mounts the file system. Returns `None` if the test lacks the permission.
    fn mount(path: PathBuf, bytes: u64) -> Option<Self> {
        std::fs::create_dir_all(&path).unwrap();
        let size = format!("size={bytes}");
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&path);
        let is_mounted = cfg!(target_os = "linux")
            && command
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
        is_mounted.then_some(Self(path))
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    for (name, jobs) in [
        ("copies", copy_jobs as fn(&Path) -> Vec<Job>),
        ("conversions", convert_jobs),
        ("changes", index_and_repair_jobs),
    ] {
        let Some(disk) = TmpfsMount::mount(folder.path().join(name), 64 << 20) else {
            eprintln!("skipped: no right to mount a small disk");
            return;
        };
        let ballast = disk.0.join("ballast");
        for job in jobs(&disk.0) {
            let bytes: usize = job.new.values().map(Vec::len).sum();
            let mut failed = 0;
            for part in [0, 1, 3, 6] {
                let _ = std::fs::remove_file(&ballast);
                job.restore();
                fill(&ballast, &disk.0, (bytes * part / 8) as u64);
                let output = job.command().output().unwrap();
                let what = format!("a full disk, part {part}");
                failed += u64::from(!check(&job, &output, "No space left", &what));
            }
            let _ = std::fs::remove_file(&ballast);
            assert!(failed > 0, "{}", job.name);
        }
    }
}

/// Fills a disk so that `free` bytes remain.
fn fill(ballast: &Path, disk: &Path, free: u64) {
    let output = Command::new("df")
        .args(["-P", "-k"])
        .arg(disk)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let available = text.lines().last().unwrap().split_whitespace().nth(3);
    let available = available.unwrap().parse::<u64>().unwrap() * 1024;
    let bytes = vec![0; available.saturating_sub(free) as usize];
    std::fs::write(ballast, bytes).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn unwritable_standard_output_is_an_error() {
    let weather = "tests/data/weather_small.tet";
    let query = "SELECT * FROM temperature";
    for (binary, arguments) in [
        (env!("CARGO_BIN_EXE_tet"), &["info", weather, "--all"][..]),
        (env!("CARGO_BIN_EXE_tet"), &["info", weather, "--json"]),
        (env!("CARGO_BIN_EXE_tet"), &["verify", weather]),
        (env!("CARGO_BIN_EXE_tet"), &["repair", weather]),
        (env!("CARGO_BIN_EXE_tet"), &["man"]),
        (env!("CARGO_BIN_EXE_tet"), &["completions", "bash"]),
        (env!("CARGO_BIN_EXE_tet-sql"), &[weather, "-c", query]),
        (env!("CARGO_BIN_EXE_tet-sql"), &[weather, "-c", ".schema"]),
        (env!("CARGO_BIN_EXE_tet-sql"), &[weather, "-c", ".tables"]),
        (env!("CARGO_BIN_EXE_tet-sql"), &["-c", "SELECT 1"]),
        (
            env!("CARGO_BIN_EXE_tet-sql"),
            &["--format", "json", "-c", "SELECT 1"],
        ),
        (env!("CARGO_BIN_EXE_tet-sql"), &["--man"]),
        (env!("CARGO_BIN_EXE_tet-sql"), &["--completions", "zsh"]),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = Command::new(binary)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .stdin(Stdio::null())
            .stdout(full.unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        let is_told = said.starts_with("error: ") && said.contains("No space left");
        assert!(is_told, "{arguments:?}: {said}");
    }
}
