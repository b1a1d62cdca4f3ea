//! Commands that are killed at any time leave the old file or the new one, and no partial file that
//! could be mistaken for either.
//!
//! `TET_SQL_CRASHES` sets how often each command is killed by each signal.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::jobs::{Job, convert_jobs, copy_jobs, index_and_repair_jobs};
use super::number;
use crate::tables::exploded::Random;

/// SIGKILL cannot be handled, SIGTERM and SIGINT can.
const SIGNALS: [&str; 3] = ["KILL", "TERM", "INT"];
/// Exit statuses of commands that handled SIGINT or SIGTERM. `None` if the signal arrived before
/// its handler was installed.
const SIGNAL_STATUSES: [Option<i32>; 3] = [Some(130), Some(143), None];

#[test]
fn killed_copies_leave_the_old_or_new_file() {
    kill_all(copy_jobs);
}

#[test]
fn killed_conversions_leave_the_old_or_new_file() {
    kill_all(convert_jobs);
}

#[test]
fn killed_index_and_repair_leave_the_old_or_new_file() {
    kill_all(index_and_repair_jobs);
}

fn kill_all(jobs: fn(&Path) -> Vec<Job>) {
    let folder = tempfile::tempdir().unwrap();
    let crashes = number("TET_SQL_CRASHES", 4);
    for job in jobs(folder.path()) {
        job.restore();
        let start = Instant::now();
        assert!(job.command().output().unwrap().status.success());
        assert!(job.is_new("whole"));
        let whole = start.elapsed();
        let (mut old, mut late) = (0, 0);
        for crash in 0..crashes {
            for (signal, seed) in SIGNALS.into_iter().zip(crash * 3..) {
                let is_new = kill(&job, whole, signal, seed);
                old += u64::from(!is_new);
                late += u64::from(is_new);
            }
        }
        eprintln!(
            "{}: whole in {whole:?}; after a kill {old} times the old one, {late} times the new one",
            job.name
        );
    }
}

/// Kills a run after a random time, and returns `true` if the target is the new file.
fn kill(job: &Job, whole: Duration, signal: &str, seed: u64) -> bool {
    let mut random = Random(seed + 1);
    let part = random.below(1000) as u32;
    job.restore();
    let start = Instant::now();
    let mut child = job.command().spawn().unwrap();
    let mut has_ended = false;
    if random.below(4) > 0 {
        // Most runs are killed only after the command has created a file that it could leave
        // behind.
        while job.rest().is_empty() && !has_ended {
            std::thread::sleep(Duration::from_micros(200));
            has_ended = child.try_wait().unwrap().is_some();
        }
        let rest = whole.saturating_sub(start.elapsed());
        std::thread::sleep(rest * part / 800);
    } else {
        std::thread::sleep(whole * part / 800);
    }
    // After a process has been waited for, its id may belong to another process.
    if !has_ended {
        send(&mut child, signal);
    }
    let output = child.wait_with_output().unwrap();
    let what = format!("{signal}, seed {seed}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{}, {what}: {said}", job.name);
    let is_new = job.is_new(&what);
    let rest = job.rest();
    let status = output.status.code();
    if status == Some(0) {
        assert!(is_new, "{}, {what}", job.name);
        assert_eq!(rest, [""; 0], "{}, {what}", job.name);
    } else if signal == "KILL" {
        let is_unfinished =
            |name: &String| name.starts_with(".tet-writing-") && name.ends_with(".tmp");
        assert!(rest.iter().all(is_unfinished), "{}: {rest:?}", job.name);
    } else {
        assert_eq!(rest, [""; 0], "{}, {what}: {said}", job.name);
        assert!(
            SIGNAL_STATUSES.contains(&status),
            "{}, {what}: {output:?}",
            job.name
        );
    }
    let spilled = files(&job.spill);
    let is_folder_left = signal == "KILL" || job.spill.read_dir().unwrap().next().is_none();
    assert!(
        spilled.is_empty() && is_folder_left,
        "{}, {what}: {spilled:?}",
        job.name
    );
    is_new
}

fn send(child: &mut Child, signal: &str) {
    if signal == "KILL" {
        child.kill().unwrap();
        return;
    }
    let (signal, id) = (format!("-{signal}"), child.id().to_string());
    // A process that has ended but has not been waited for still exists, so the signal can be sent.
    let sent = Command::new("kill").args([signal, id]).status();
    assert!(sent.unwrap().success());
}

/// Returns the files in a directory and its subdirectories.
fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            // Marks a temporary directory as in use by its process.
            false if path.ends_with("in-use") => {}
            false => found.push(path.display().to_string()),
        }
    }
    found
}
