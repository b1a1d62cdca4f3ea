//! Anonymous memory of this process: its allocations, without the files that it maps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time between two samples.
const INTERVAL: Duration = Duration::from_millis(1);
/// With fewer samples than this during a query, its peak may have been missed.
const FEW_SAMPLES: usize = 5;

/// Anonymous memory during a query, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Peak {
    /// The memory in use before the query.
    pub before: u64,
    /// The maximum of all samples.
    pub peak: u64,
    samples: usize,
}

impl Peak {
    /// The memory that the query used in addition to what the process had.
    pub fn growth(&self) -> u64 {
        self.peak - self.before
    }

    /// Returns `true` if the query was too short for enough samples.
    pub fn is_uncertain(&self) -> bool {
        self.samples < FEW_SAMPLES
    }
}

/// Samples the memory once per millisecond on a thread of its own.
pub struct Sampler {
    before: u64,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<(u64, usize)>,
}

impl Sampler {
    /// Starts sampling. Returns `None` if the system does not report memory.
    pub fn start() -> Option<Self> {
        let before = anonymous_bytes()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen_over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (mut peak, mut samples) = (0, 0);
            while !seen_over.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_bytes().unwrap_or(0));
                samples += 1;
                std::thread::sleep(INTERVAL);
            }
            (peak, samples)
        });
        Some(Self {
            before,
            is_over,
            thread,
        })
    }

    /// Stops sampling. The query's answer should still be alive, so that it is counted.
    pub fn finish(self) -> Option<Peak> {
        let last = anonymous_bytes()?;
        self.is_over.store(true, Ordering::Relaxed);
        let (peak, samples) = self.thread.join().ok()?;
        Some(Peak {
            before: self.before,
            peak: peak.max(last).max(self.before),
            samples,
        })
    }
}

fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

/// Returns the allocator's free memory to the system, so that earlier queries do not hide what the
/// next one allocates.
pub fn release_unused() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        unsafe extern "C" {
            safe fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}
