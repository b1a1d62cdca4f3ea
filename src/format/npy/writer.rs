//! Writes `.npy` and `.npz` files.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zip::write::{SimpleFileOptions, ZipWriter};

use crate::error::{Error, Result};
use crate::format::array::{ArrayWriter, Chunks, Dataset, DatasetSpec, next_indices};
use crate::format::io::target::{self, TemporaryFile};
use crate::format::npy::header::Header;

/// Writes a single array as a `.npy` file, or any number of arrays as an uncompressed `.npz` file.
///
/// Neither format can store dimension names, labels, attributes, fill values or chunks.
pub struct NpyWriter {
    path: PathBuf,
    chunks: Chunks<()>,
    /// The `.npy` file under construction of each dataset.
    arrays: Vec<ArrayFile>,
    is_archive: bool,
}

struct ArrayFile {
    output: BufWriter<TemporaryFile>,
    cells_offset: u64,
}

impl ArrayFile {
    fn create(path: &Path, spec: &DatasetSpec) -> Result<Self> {
        let header = Header {
            descr: spec.dtype.numpy_name().to_string(),
            fortran_order: false,
            shape: spec.shape.clone(),
            cells_offset: 0,
        };
        let header = header.encode();
        let mut temporary = target::create_beside(path)?;
        temporary
            .write_all(&header)
            .map_err(Error::io(path, "write"))?;
        Ok(Self {
            output: BufWriter::new(temporary),
            cells_offset: header.len() as u64,
        })
    }
}

impl NpyWriter {
    /// Starts a file of the described arrays.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the path does not end in `.npz` and there is not exactly one array, or
    /// if an array cannot be written as described; [`Error::Io`] if a temporary file cannot be
    /// created.
    pub fn create(path: impl AsRef<Path>, specs: &[DatasetSpec]) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let extension = path.extension().unwrap_or_default();
        let is_archive = extension.eq_ignore_ascii_case("npz");
        if !is_archive && specs.len() != 1 {
            let message = format!(
                "a .npy file holds one array, not {}; a .npz file holds any number",
                specs.len()
            );
            return Err(Error::invalid(&path, message));
        }
        let datasets = specs.iter().enumerate();
        let datasets: Vec<_> = datasets
            .map(|(number, spec)| spec.dataset(number))
            .collect();
        for dataset in &datasets {
            dataset.check(&path)?;
        }
        let chunks = Chunks::new(&path, datasets)?;
        let arrays = specs.iter().map(|spec| ArrayFile::create(&path, spec));
        Ok(Self {
            arrays: arrays.collect::<Result<_>>()?,
            chunks,
            is_archive,
            path,
        })
    }

    /// Combines the arrays into one archive.
    fn archive(&self, arrays: Vec<TemporaryFile>) -> Result<TemporaryFile> {
        let mut archive = ZipWriter::new(target::create_beside(&self.path)?);
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            // ZIP64, for members of 4 GiB or more.
            .large_file(true);
        for (dataset, mut array) in self.chunks.datasets().iter().zip(arrays) {
            archive
                .start_file(format!("{}.npy", dataset.name), options)
                .map_err(|error| Error::io(&self.path, "write")(error.into()))?;
            array
                .seek(SeekFrom::Start(0))
                .and_then(|_| io::copy(array.as_file_mut(), &mut archive))
                .map_err(Error::io(&self.path, "write"))?;
        }
        archive
            .finish()
            .map_err(|error| Error::io(&self.path, "write")(error.into()))
    }
}

impl ArrayWriter for NpyWriter {
    fn path(&self) -> &Path {
        &self.path
    }

    fn dataset(&self, number: usize) -> Option<&Dataset> {
        self.chunks.datasets().get(number)
    }

    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let path = &self.path;
        let (described, ordinal) = self.chunks.check(path, dataset, chunk, cells)?;
        let size = described.check(path)?.size();
        let array = &mut self.arrays[dataset];
        let (start, extent) = described.chunk_bounds(chunk);
        // The trailing axes that the chunk covers in full form one run with the next outer axis.
        let whole = (0..extent.len())
            .rev()
            .take_while(|axis| extent[*axis] == described.shape[*axis])
            .count();
        let cut = (extent.len() - whole).saturating_sub(1);
        let run = extent[cut..].iter().product::<u64>() * size;
        let mut row = vec![0; cut];
        let mut rest = cells;
        loop {
            let mut offset = 0;
            for (axis, (start, shape)) in start.iter().zip(&described.shape).enumerate() {
                offset = offset * shape + start + row.get(axis).copied().unwrap_or(0);
            }
            let (cells, others) = rest.split_at(run as usize);
            rest = others;
            array
                .output
                .seek(SeekFrom::Start(array.cells_offset + offset * size))
                .and_then(|_| array.output.write_all(cells))
                .map_err(Error::io(path, "write"))?;
            if !next_indices(&mut row, &extent[..cut]) {
                break;
            }
        }
        self.chunks.set(dataset, ordinal, ());
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.chunks.check_all(&self.path)?;
        let arrays = std::mem::take(&mut self.arrays).into_iter();
        let arrays = arrays.map(|array| {
            let temporary = array.output.into_inner();
            temporary.map_err(|error| Error::io(&self.path, "write")(error.into_error()))
        });
        let mut arrays = arrays.collect::<Result<Vec<_>>>()?;
        let whole = match (self.is_archive, arrays.pop()) {
            (false, Some(only)) => only,
            (_, last) => {
                arrays.extend(last);
                self.archive(arrays)?
            }
        };
        target::persist(whole, &self.path)
    }
}
