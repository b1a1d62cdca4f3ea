//! Writing `.npy` and `.npz` files.

use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use zip::write::{SimpleFileOptions, ZipWriter};

use crate::error::{Error, Result};
use crate::format::array::{ArrayWriter, Dataset, DatasetSpec, Dtype, next_position};
use crate::format::npy::header::Header;
use crate::format::target::{self, TemporaryFile};

/// Writes arrays as NumPy keeps them: the only one as a `.npy` file, or any number as a `.npz` file, which is not compressed.
/// Neither has room for names of dimensions, labels, attributes or fill values, nor for chunks.
pub struct NpyWriter {
    path: PathBuf,
    datasets: Vec<Dataset>,
    /// A file under construction for each of them.
    arrays: Vec<ArrayFile>,
    is_archive: bool,
}

struct ArrayFile {
    output: BufWriter<TemporaryFile>,
    dtype: Dtype,
    cells_offset: u64,
    /// Which chunks were written.
    has_chunk: Vec<bool>,
}

impl NpyWriter {
    /// Starts a file with these arrays.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the path does not end in `.npz` and there are several, or if there are too many chunks;
    /// [`Error::Io`] if a temporary file cannot be made.
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
        let mut writer = Self {
            datasets: Vec::with_capacity(specs.len()),
            arrays: Vec::with_capacity(specs.len()),
            is_archive,
            path,
        };
        for (id, spec) in specs.iter().enumerate() {
            writer.add(id, spec)?;
        }
        Ok(writer)
    }

    fn add(&mut self, id: usize, spec: &DatasetSpec) -> Result<()> {
        if self.datasets.iter().any(|other| other.name == spec.name) {
            let message = format!("two datasets are called {:?}", spec.name);
            return Err(Error::invalid(&self.path, message));
        }
        let dataset = Dataset {
            id: id as u64,
            name: spec.name.clone(),
            dtype_tag: spec.dtype.tag(),
            dtype: Some(spec.dtype),
            shape: spec.shape.clone(),
            chunk_shape: spec.chunk_shape.clone(),
        };
        dataset.check(&self.path)?;
        let header = Header {
            descr: spec.dtype.numpy_name().to_string(),
            fortran_order: false,
            shape: spec.shape.clone(),
            cells_offset: 0,
        };
        let header = header.encode();
        let mut temporary = target::create_beside(&self.path)?;
        temporary
            .write_all(&header)
            .map_err(Error::io(&self.path, "write"))?;
        let chunks = dataset
            .chunk_count()
            .and_then(|chunks| chunks.try_into().ok());
        let mut has_chunk = Vec::new();
        let Some(Ok(())) = chunks.map(|chunks: usize| has_chunk.try_reserve_exact(chunks)) else {
            return Err(Error::invalid(&self.path, "too many chunks"));
        };
        has_chunk.resize(chunks.unwrap_or(0), false);
        self.arrays.push(ArrayFile {
            output: BufWriter::new(temporary),
            dtype: spec.dtype,
            cells_offset: header.len() as u64,
            has_chunk,
        });
        self.datasets.push(dataset);
        Ok(())
    }

    /// Puts the arrays into one archive.
    fn archive(&self, arrays: Vec<TemporaryFile>) -> Result<TemporaryFile> {
        let mut archive = ZipWriter::new(target::create_beside(&self.path)?);
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            // Lengths of more than 32 bits.
            .large_file(true);
        for (dataset, mut array) in self.datasets.iter().zip(arrays) {
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
        self.datasets.get(number)
    }

    fn write_chunk(&mut self, dataset: usize, chunk: &[u64], cells: &[u8]) -> Result<()> {
        let path = &self.path;
        let Some((described, array)) = self.datasets.get(dataset).zip(self.arrays.get_mut(dataset))
        else {
            return Err(Error::invalid(path, format!("no dataset number {dataset}")));
        };
        let invalid = |message: String| {
            let name = &described.name;
            Error::invalid(
                path,
                format!("dataset {name:?}, chunk {chunk:?}: {message}"),
            )
        };
        let size = array.dtype.size();
        let ordinal = (chunk.len() == described.shape.len())
            .then(|| described.chunk_ordinal(chunk))
            .flatten()
            .ok_or_else(|| invalid("outside the chunk grid".to_string()))?;
        let expected = described.chunk_bytes(array.dtype, chunk);
        if cells.len() as u64 != expected {
            let found = cells.len();
            return Err(invalid(format!(
                "{found} bytes of cells, expected {expected}"
            )));
        }
        // In memory, so that it fits.
        if std::mem::replace(&mut array.has_chunk[ordinal as usize], true) {
            return Err(invalid("written twice".to_string()));
        }
        let (start, extent) = described.chunk_place(chunk);
        // What is whole along the axes behind is one run.
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
            if !next_position(&mut row, &extent[..cut]) {
                return Ok(());
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        for (dataset, array) in self.datasets.iter().zip(&self.arrays) {
            if let Some(ordinal) = array.has_chunk.iter().position(|has_chunk| !has_chunk) {
                let message = format!(
                    "dataset {:?}: chunk number {ordinal} of {} was never written",
                    dataset.name,
                    array.has_chunk.len()
                );
                return Err(Error::invalid(&self.path, message));
            }
        }
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
