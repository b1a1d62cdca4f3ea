//! Guarantees when things go wrong: processes are killed, disks are full, files change while they
//! are read. A file is always either the old one or the new one, and an answer is right or an
//! error.

mod changing;
mod concurrency;
#[cfg(unix)]
mod crashes;
#[cfg(unix)]
mod failing;
#[cfg(unix)]
mod jobs;
mod versions;

/// Returns a number from an environment variable.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
