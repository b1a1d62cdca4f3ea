//! Runs of the commands that replace a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, TetWriter};

use crate::tables::exploded::Random;

const TET_SQL: &str = env!("CARGO_BIN_EXE_tet-sql");
const TET: &str = env!("CARGO_BIN_EXE_tet");

/// The content of a file, or of each file in a directory, by relative path.
pub type State = BTreeMap<PathBuf, Vec<u8>>;

/// A command that replaces a file.
pub struct Job {
    pub name: &'static str,
    binary: &'static str,
    arguments: Vec<String>,
    /// The directory that contains the target, and whatever the command leaves beside the target.
    folder: PathBuf,
    pub target: PathBuf,
    /// The command's directory for spill files.
    pub spill: PathBuf,
    pub old: State,
    pub new: State,
    /// The files that the command leaves beside the target on purpose.
    kept: BTreeMap<PathBuf, State>,
}

/// Returns the state of a file or directory. A path that does not exist has an empty state.
pub fn state(path: &Path) -> State {
    let mut state = State::new();
    add(path, path, &mut state);
    state
}

fn add(root: &Path, path: &Path, state: &mut State) {
    if path.is_dir() {
        for entry in path.read_dir().unwrap() {
            add(root, &entry.unwrap().path(), state);
        }
    } else if let Ok(mut bytes) = std::fs::read(path) {
        clear_times(&mut bytes);
        state.insert(path.strip_prefix(root).unwrap().to_path_buf(), bytes);
    }
}

/// Zeroes the times in provenance records, so that files of two runs compare equal.
fn clear_times(bytes: &mut [u8]) {
    const KEY: &[u8] = b"\"at\":";
    let places: Vec<_> = bytes
        .windows(KEY.len())
        .enumerate()
        .filter(|(_, window)| *window == KEY)
        .map(|(place, _)| place + KEY.len())
        .collect();
    for place in places {
        let rest = bytes[place..].iter_mut();
        rest.take(13)
            .filter(|byte| byte.is_ascii_digit())
            .for_each(|byte| *byte = b'0');
    }
}

impl Job {
    /// Creates a job. `before` writes the old target, and one run of the command records the new
    /// one.
    fn new(
        folder: &Path,
        name: &'static str,
        binary: &'static str,
        file: &str,
        before: impl FnOnce(&Job),
        arguments: impl FnOnce(&str) -> Vec<String>,
    ) -> Self {
        let home = folder.join(name);
        let (folder, spill) = (home.join("target"), home.join("spill"));
        for folder in [&folder, &spill] {
            std::fs::create_dir_all(folder).unwrap();
        }
        let target = folder.join(file);
        let mut job = Self {
            name,
            binary,
            arguments: arguments(target.to_str().unwrap()),
            folder,
            target,
            spill,
            old: State::new(),
            new: State::new(),
            kept: BTreeMap::new(),
        };
        before(&job);
        job.old = state(&job.target);
        let output = job.command().output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        job.new = state(&job.target);
        assert_ne!(job.old, job.new, "{name}");
        let kept = job.left().into_iter();
        job.kept = kept
            .map(|name| (PathBuf::from(&name), state(&job.folder.join(name))))
            .collect();
        job
    }

    /// Returns the command.
    pub fn command(&self) -> Command {
        self.prepared(Command::new(self.binary), &[])
    }

    /// Returns the command in a shell that runs `script` first.
    pub fn command_after(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        let script = format!("{script}; exec \"$0\" \"$@\"");
        command.args(["-c", &script]);
        self.prepared(command, &[self.binary])
    }

    fn prepared(&self, mut command: Command, first: &[&str]) -> Command {
        command
            .args(first)
            .args(&self.arguments)
            .env("TMPDIR", &self.spill)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns `true` if the target is the new one, and `false` if it is the old one. Panics if it
    /// is neither.
    pub fn is_new(&self, what: &str) -> bool {
        let state = state(&self.target);
        let files: Vec<_> = state.keys().collect();
        assert!(
            state == self.old || state == self.new,
            "{}, {what}: neither the old nor the new target: {files:?}",
            self.name
        );
        state == self.new
    }

    /// Returns the names of entries beside the target that a run should not have left.
    pub fn rest(&self) -> Vec<String> {
        let mut left = self.left();
        left.retain(|name| {
            let kept = self.kept.get(Path::new(name));
            kept != Some(&state(&self.folder.join(name)))
        });
        left
    }

    /// Returns the names of all other entries in the target's directory.
    fn left(&self) -> Vec<String> {
        let entries = self.folder.read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names
            .filter(|name| Some(name.as_os_str()) != self.target.file_name())
            .map(|name| name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Restores the old target, and deletes everything beside it.
    pub fn restore(&self) {
        for folder in [&self.folder, &self.spill] {
            std::fs::remove_dir_all(folder).unwrap();
            std::fs::create_dir(folder).unwrap();
        }
        for (name, bytes) in &self.old {
            let path = match name.as_os_str().is_empty() {
                true => self.target.clone(),
                false => self.target.join(name),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }
}

/// Writes a file with chunks that do not compress well.
fn write_input(path: &Path, seed: u64, side: u64) {
    let spec = DatasetSpec::new("v", Dtype::F64, &[side, side], &[16, side])
        .with_dim_names(["a", "b"])
        .with_compression(Compression::Zstd { level: 1 });
    let mut random = Random(seed);
    let cells = (0..side * side).flat_map(|_| ((random.next() % 100_000) as f64).to_le_bytes());
    let mut writer = TetWriter::create(path, vec![spec]).unwrap();
    writer.write_dataset(0, &cells.collect::<Vec<_>>()).unwrap();
    writer.finish().unwrap();
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Returns COPY statements run by `tet-sql`.
pub fn copy_jobs(folder: &Path) -> Vec<Job> {
    let copy = |name, file, settings: &[&str], options: &str| {
        let statement = |target: &str, rows: u64| {
            format!(
                "COPY (SELECT value % 200 AS a, value / 200 AS b, value * 0.5 + {rows} AS v FROM range({rows})) TO \
                 '{target}' OPTIONS (dims 'a,b', chunk '20,20', codec 'zstd'{options})"
            )
        };
        let before = |job: &Job| {
            let old = statement(job.target.to_str().unwrap(), 600);
            let output = Command::new(TET_SQL).args(["-c", &old]).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        Job::new(folder, name, TET_SQL, file, before, |target| {
            let mut arguments = words(settings);
            arguments.extend(words(&["--threads", "2", "-c", &statement(target, 40_000)]));
            arguments
        })
    };
    vec![
        copy("copy", "a.tet", &[], ", zone_maps true"),
        copy("copy_spooled", "a.tet", &["--memory-limit", "1M"], ""),
        #[cfg(feature = "zarr")]
        copy("copy_zarr", "a.zarr", &[], ""),
    ]
}

/// Returns runs of `tet convert`.
pub fn convert_jobs(folder: &Path) -> Vec<Job> {
    let (old, new) = (folder.join("old.tet"), folder.join("new.tet"));
    write_input(&old, 1, 20);
    write_input(&new, 2, 300);
    let convert = |name, file, more: &[&str]| {
        let arguments = |from: &Path, to: &str| {
            let mut arguments = words(&["convert", "--overwrite", from.to_str().unwrap(), to]);
            arguments.extend(words(more));
            arguments
        };
        let before = |job: &Job| {
            let arguments = arguments(&old, job.target.to_str().unwrap());
            let output = Command::new(TET).args(arguments).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        Job::new(folder, name, TET, file, before, |target| {
            arguments(&new, target)
        })
    };
    vec![
        convert("convert", "a.tet", &["--chunk", "30,40", "--zone-maps"]),
        convert("convert_npy", "a.npy", &[]),
        convert("convert_npz", "a.npz", &[]),
        #[cfg(feature = "zarr")]
        convert("convert_zarr", "a.zarr", &["--chunk", "30,40"]),
        convert("convert_parquet", "a.parquet", &[]),
    ]
}

/// Returns runs of `tet index` and `tet repair`.
pub fn index_and_repair_jobs(folder: &Path) -> Vec<Job> {
    let index = Job::new(
        folder,
        "index",
        TET,
        "a.tet",
        |job| write_input(&job.target, 3, 300),
        |target| words(&["index", target]),
    );
    // The JSON document of the footer is broken. `repair` keeps the bytes it cuts in a separate
    // file.
    let repair = Job::new(
        folder,
        "repair",
        TET,
        "a.tet",
        |job| {
            write_input(&job.target, 4, 300);
            let mut bytes = std::fs::read(&job.target).unwrap();
            let place = bytes.len() - 20;
            bytes[place] = b'!';
            std::fs::write(&job.target, bytes).unwrap();
        },
        |target| words(&["repair", "--apply", target]),
    );
    assert_eq!(repair.kept.len(), 1);
    vec![index, repair]
}
