//! What must hold when things go wrong: processes that are killed, disks that are full, files that change under their
//! readers. Whatever happens, a file is the old one or the new one, and an answer is right or an error.

mod changing;
mod concurrency;
#[cfg(unix)]
mod crashes;
#[cfg(unix)]
mod failing;
#[cfg(unix)]
mod jobs;
mod versions;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
