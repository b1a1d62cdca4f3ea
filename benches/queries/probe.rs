//! A probe of memory bandwidth: computes the maximum of all numbers of a mapped file with SIMD on
//! several threads.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use memmap2::Mmap;
use multiversion::multiversion;

use crate::Result;
use crate::bars::Target;
use crate::measure::{Figures, Times};
use crate::options::Options;
use crate::report::Report;

/// The number of cells that a thread takes at a time.
const CELLS_PER_STEP: usize = 1 << 19;
const ARGUMENT: &str = "--probe";

/// Returns the file to probe if this process was started only for that.
pub fn asked_for() -> Option<PathBuf> {
    let mut arguments = std::env::args_os().skip(1);
    arguments
        .find(|argument| argument.as_os_str() == ARGUMENT)
        .and_then(|_| arguments.next())
        .map(PathBuf::from)
}

/// Maps the file and runs the probe once.
pub fn in_a_process_of_its_own(path: &Path) -> Result<()> {
    let threads = std::env::var("TET_SQL_BENCH_THREADS").ok();
    let threads = threads.map_or(Ok(2), |threads| threads.parse())?;
    println!("{}", max_of_file(&map(path)?, threads));
    Ok(())
}

/// Maps a file into memory.
pub fn map(path: &Path) -> Result<Mmap> {
    // SAFETY: the file belongs to the benchmark, and nothing writes to it while the benchmark runs.
    Ok(unsafe { Mmap::map(&File::open(path)?)? })
}

/// Returns the maximum of a mapped file read as f32, headers included.
pub fn max_of_file(map: &[u8], threads: usize) -> f32 {
    let cells = map.as_chunks::<4>().0;
    let next = AtomicUsize::new(0);
    let work = || {
        let mut most = f32::NEG_INFINITY;
        while let Some(piece) = cells
            .chunks(CELLS_PER_STEP)
            .nth(next.fetch_add(1, Ordering::Relaxed))
        {
            most = most.max(max_of(piece));
        }
        most
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let found = handles.into_iter().filter_map(|handle| handle.join().ok());
        found.fold(f32::NEG_INFINITY, f32::max)
    })
}

#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma",
    "x86_64+avx2+fma"
))]
fn max_of(cells: &[[u8; 4]]) -> f32 {
    let mut most = [f32::NEG_INFINITY; 64];
    for block in cells.as_chunks::<64>().0 {
        for (most, bytes) in most.iter_mut().zip(block) {
            let cell = f32::from_le_bytes(*bytes);
            *most = if cell > *most { cell } else { *most };
        }
    }
    most.into_iter().fold(f32::NEG_INFINITY, f32::max)
}

/// Alternates the probe and an average, each in a new process that faults the whole file in.
pub fn fresh(path: &Path, options: &Options, report: &mut Report) -> Result<()> {
    const PROBE: &str = "fresh process: probe";
    const AVERAGE: &str = "fresh process: avg";
    if !options.wants(PROBE) && !options.wants(AVERAGE) {
        return Ok(());
    }
    let threads = options.threads.to_string();
    let mut probe = Command::new(std::env::current_exe()?);
    probe.arg(ARGUMENT).arg(path);
    probe.env("TET_SQL_BENCH_THREADS", &threads);
    let set = format!("SET datafusion.execution.target_partitions = {threads}");
    let schema = format!("f={}", path.display());
    let mut average = Command::new(env!("CARGO_BIN_EXE_tet-sql"));
    average.args([
        "-c",
        &set,
        "-c",
        "SELECT avg(value) FROM f.temperature",
        &schema,
    ]);
    let run = |command: &mut Command| -> Result<Duration> {
        let start = Instant::now();
        let output = command.output()?;
        let time = start.elapsed();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        Ok(time)
    };
    let (mut probes, mut averages) = (Times::default(), Times::default());
    for _ in 0..options.runs {
        probes.push(run(&mut probe)?);
        averages.push(run(&mut average)?);
    }
    report
        .bars
        .add(Target::FreshProcess, "avg", averages.ratio(&probes));
    report.add(PROBE, "raw", &Figures::only(probes));
    report.add(AVERAGE, "raw", &Figures::only(averages));
    Ok(())
}
