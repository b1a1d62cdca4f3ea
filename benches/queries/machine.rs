//! The machine that the figures were measured on.

use std::process::Command;

use crate::options::Options;

/// Returns a description of the machine, the compiler and the sizes.
pub fn describe(options: &Options) -> String {
    let [time, lat, lon] = options.size.shape;
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".into());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let compiler = Command::new("rustc").arg("--version").output();
    let compiler = compiler
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string())
        .unwrap_or_else(|_| "unknown rustc".into());
    format!(
        "{cpu}, {cores} cores, {memory} of memory, {} {}\n\
         tet-sql {}, DataFusion {}, Arrow {}, zstd {}, {compiler}, profile bench\n\
         {time} x {lat} x {lon} f32 in chunks of {:?}; {} threads; warm page cache; median of {} runs\n\
         load averages at the start: {}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        env!("CARGO_PKG_VERSION"),
        datafusion::DATAFUSION_VERSION,
        arrow::ARROW_VERSION,
        zstd::zstd_safe::version_string(),
        options.size.chunk_shape,
        options.threads,
        options.runs,
        load(),
    )
}

/// Returns the load averages over 1, 5 and 15 minutes: other work on the machine distorts the
/// figures.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".into());
    let averages: Vec<_> = text.split_whitespace().take(3).collect();
    averages.join(" ")
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_string())
    })
}
