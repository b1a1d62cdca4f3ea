//! Interoperability of this crate and `tetration` in both directions, with files written during the
//! test.

use std::collections::BTreeMap;

use datafusion::catalog::SchemaProvider;
use tet_sql::ArrayOptions;
use tet_sql::format::tet::{Compression, DatasetSpec, Dtype, FileMetadata, TetWriter};
use tetration::catalog::{
    CHUNK_PAYLOAD_CODEC_V1, CoordAxisV1, DatasetMetadataV1, FileMetadataV1, FooterBlobV1,
    HistoryEvent, RawArrayWrite, TetDatasetWrite, TetMetadataV1, TetWriterSession,
    write_footer_blob, write_multi_raw_array_file,
};

use crate::formats::reference::{Reference, verify};
use crate::support::cells::{
    ACCESS, Cell, OpenFile, assert_same, counted, from_column, from_stored, number,
};

/// Shapes with chunk shapes that divide the shape, do not divide it, or exceed it, of every rank
/// from 1 to 4.
const GEOMETRIES: [(&[u64], &[u64]); 6] = [
    (&[10], &[3]),
    (&[6, 4], &[2, 2]),
    (&[7, 5], &[3, 8]),
    (&[4, 3, 5], &[1, 2, 9]),
    (&[2, 3, 2, 3], &[2, 2, 1, 2]),
    (&[1], &[100]),
];

/// Returns cells of a type. They differ between datasets, and are small enough that every sum is
/// exact in f64.
fn stored_cells(dtype: Dtype, shape: &[u64], seed: u64) -> Vec<u8> {
    let count: u64 = shape.iter().product();
    (0..count)
        .flat_map(|position| {
            let value = ((position * 37 + seed * 11) % 97) as u8;
            match dtype {
                Dtype::F32 => (f32::from(value) / 4.0 - 9.0).to_le_bytes().to_vec(),
                Dtype::F64 => (f64::from(value) / 8.0 - 5.0).to_le_bytes().to_vec(),
                Dtype::F16 => half::f16::from_f32(f32::from(value) / 2.0)
                    .to_le_bytes()
                    .to_vec(),
                Dtype::I16 => (i16::from(value) - 50).to_le_bytes().to_vec(),
                Dtype::I32 => (i32::from(value) * 1000 - 50_000).to_le_bytes().to_vec(),
                Dtype::I64 => (i64::from(value) * 1_000_000_007 - 5)
                    .to_le_bytes()
                    .to_vec(),
                Dtype::I8 => unreachable!("not a type of .tet files"),
                Dtype::U8 => vec![value],
                Dtype::U16 => (u16::from(value) * 600).to_le_bytes().to_vec(),
                Dtype::U32 => (u32::from(value) * 40_000_000).to_le_bytes().to_vec(),
                Dtype::U64 => (u64::from(value) << 40).to_le_bytes().to_vec(),
            }
        })
        .collect()
}

/// Returns the tag of a type in the format.
fn dtype_tag(dtype: Dtype) -> u32 {
    let tags = tetration::catalog::DATASET_DTYPE_TAG_V1;
    match dtype {
        Dtype::F32 => tags.f32,
        Dtype::F64 => tags.f64,
        Dtype::I32 => tags.i32,
        Dtype::I64 => tags.i64,
        Dtype::U8 => tags.u8,
        Dtype::U16 => tags.u16,
        Dtype::I16 => tags.i16,
        Dtype::U32 => tags.u32,
        Dtype::F16 => tags.f16,
        Dtype::U64 => tags.u64,
        Dtype::I8 => unreachable!("not a type of .tet files"),
    }
}

/// A dataset to be written and read back.
struct Sample {
    name: String,
    dtype: Dtype,
    shape: &'static [u64],
    chunk_shape: &'static [u64],
    cells: Vec<u8>,
}

/// Returns a dataset of every type in every geometry.
fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for dtype in Dtype::ALL {
        for (number, (shape, chunk_shape)) in GEOMETRIES.into_iter().enumerate() {
            samples.push(Sample {
                name: format!("group {number}/{dtype}"),
                dtype,
                shape,
                chunk_shape,
                cells: stored_cells(dtype, shape, samples.len() as u64),
            });
        }
    }
    samples
}

/// Compares the cells of the table, and their SQL sum, with the cells that were written.
async fn assert_reads(
    file: &OpenFile,
    dataset: &str,
    labels: &[Vec<String>],
    dtype: Dtype,
    stored: &[u8],
) {
    let expected = from_stored(dtype, stored);
    assert_same(&file.table(dataset, labels).await, &expected, dataset);
    let numbers = expected.iter().map(|cell| number(dtype, cell.unwrap()));
    let sql = format!("SELECT sum(CAST(value AS DOUBLE)) FROM f.\"{dataset}\"");
    assert_eq!(file.number(&sql).await, Some(numbers.sum()), "{sql}");
}

async fn assert_sample(file: &OpenFile, sample: &Sample) {
    let labels = counted(sample.shape);
    assert_reads(file, &sample.name, &labels, sample.dtype, &sample.cells).await;
}

#[tokio::test]
async fn arrays_written_by_tetration_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    let samples = samples();
    for codec in [CHUNK_PAYLOAD_CODEC_V1.raw, CHUNK_PAYLOAD_CODEC_V1.zstd] {
        let path = folder.path().join(format!("codec_{codec}.tet"));
        let specs: Vec<_> = samples
            .iter()
            .map(|sample| RawArrayWrite {
                name: &sample.name,
                dtype: dtype_tag(sample.dtype),
                shape: sample.shape,
                chunk_shape: sample.chunk_shape,
                chunk_codec: codec,
                data: &sample.cells,
                file_execution: None,
            })
            .collect();
        write_multi_raw_array_file(&path, &specs).unwrap();
        for access in ACCESS {
            let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
                .await
                .unwrap();
            assert_eq!(file.schema.table_names().len(), samples.len());
            for sample in &samples {
                assert_sample(&file, sample).await;
            }
        }
    }
}

#[tokio::test]
async fn footers_written_by_tetration_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("footer.tet");
    let cells = stored_cells(Dtype::I32, &[3, 4], 1);
    let zstd = CHUNK_PAYLOAD_CODEC_V1.zstd;
    let spec = RawArrayWrite::from_tensor(
        "a",
        dtype_tag(Dtype::I32),
        &[3, 4],
        &[2, 3],
        zstd,
        &cells,
        None,
    );
    write_multi_raw_array_file(&path, &[spec]).unwrap();
    let axis = |labels: &[&str]| CoordAxisV1 {
        labels: labels.iter().map(|label| label.to_string()).collect(),
    };
    // Labels belong to an axis by its name, by its index, or by its length. The long attributes
    // make the metadata spill.
    for (spills, labels) in [
        (
            false,
            [
                ("time", axis(&["t0", "t1", "t2"])),
                ("1", axis(&["w", "x", "y", "z"])),
            ],
        ),
        (
            true,
            [
                ("time", axis(&["t0", "t1", "t2"])),
                ("other", axis(&["w", "x", "y", "z"])),
            ],
        ),
    ] {
        let mut attributes = BTreeMap::from([("units".to_string(), "K".to_string())]);
        if spills {
            attributes.extend((0..63).map(|n| (format!("note {n}"), "long ".repeat(204))));
        }
        let metadata = DatasetMetadataV1 {
            attrs: attributes.clone(),
            dim_names: Some(vec!["time".to_string(), "place".to_string()]),
            coords: Some(
                labels
                    .into_iter()
                    .map(|(key, axis)| (key.to_string(), axis))
                    .collect(),
            ),
        };
        // A second entry, for a dataset that does not exist, takes the footer over 64 KiB.
        let mut all = BTreeMap::from([("a".to_string(), metadata.clone())]);
        if spills {
            all.insert("absent".to_string(), metadata);
        }
        let footer = FooterBlobV1 {
            history: vec![HistoryEvent::new("write", "test")],
            metadata: Some(TetMetadataV1 {
                file: Some(FileMetadataV1 {
                    tool: Some("tetration".to_string()),
                    ..FileMetadataV1::default()
                }),
                datasets: all,
            }),
            metadata_ref: None,
        };
        write_footer_blob(&path, &footer).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let has_spill = bytes
            .windows(14)
            .any(|window| window == b"\"metadata_ref\"");
        assert_eq!(has_spill, spills);

        for access in ACCESS {
            let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
                .await
                .unwrap();
            let opened = file.tet();
            let read = opened.footer();
            assert_eq!(read.history.len(), 1);
            assert_eq!(
                (read.history[0].op.as_str(), read.history[0].source.as_str()),
                ("write", "test")
            );
            let tool = read
                .metadata
                .file
                .as_ref()
                .and_then(|file| file.tool.as_deref());
            assert_eq!(tool, Some("tetration"));
            assert_eq!(read.metadata.datasets["a"].attrs, attributes);
            let labels = [
                ["t0", "t1", "t2"].map(String::from).to_vec(),
                ["w", "x", "y", "z"].map(String::from).to_vec(),
            ];
            assert_reads(&file, "a", &labels, Dtype::I32, &cells).await;
            let one = file
                .answer("SELECT value FROM f.a WHERE time = 't2' AND place = 'y'")
                .await;
            let expected = i32::from_le_bytes(cells[4 * 10..4 * 11].try_into().unwrap());
            assert_eq!(one, expected.to_string());
        }
    }
}

/// The writer session is also what the `tet convert` of `tetration` uses. It writes footer version
/// 2 with zone maps and indexes.
#[tokio::test]
async fn writer_sessions_of_tetration_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("session.tet");
    let mut session = TetWriterSession::create(&path);
    session.push_history_event("write", "test");
    let samples = samples();
    for sample in &samples {
        let mut dataset = TetDatasetWrite::row_major(
            &sample.name,
            dtype_tag(sample.dtype),
            sample.shape,
            sample.chunk_shape,
            sample.cells.clone(),
        )
        .unwrap();
        let names = (0..sample.shape.len()).map(|axis| format!("axis {axis}"));
        dataset.dim_names = Some(names.collect());
        session.push_dataset(dataset).unwrap();
    }
    session.commit().unwrap();
    for access in ACCESS {
        let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
            .await
            .unwrap();
        assert!(file.tet().footer().has_zone_maps());
        for sample in &samples {
            assert_sample(&file, sample).await;
        }
        let sql = "SELECT count(*) FROM f.\"group 1/f32\" WHERE \"axis 1\" = 2";
        assert_eq!(file.answer(sql).await, "6");
    }
}

#[tokio::test]
async fn tetration_reads_our_files() {
    let folder = tempfile::tempdir().unwrap();
    let samples = samples();
    let compressions = [
        Compression::Raw,
        Compression::Zstd { level: -5 },
        Compression::Zstd { level: 3 },
        Compression::Zstd { level: 19 },
    ];
    for (number, compression) in compressions.into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.tet"));
        let specs = samples.iter().map(|sample| {
            DatasetSpec::new(&sample.name, sample.dtype, sample.shape, sample.chunk_shape)
                .with_compression(compression)
        });
        let mut writer = TetWriter::create(&path, specs.collect()).unwrap();
        for (number, sample) in samples.iter().enumerate() {
            writer.write_dataset(number, &sample.cells).unwrap();
        }
        writer.finish().unwrap();

        let report = verify(&path);
        assert!(report.ok, "{:?}", report.findings);
        assert!(report.summary.unwrap().deep_chunk_decode);
        let file = OpenFile::open(&path, ArrayOptions::new()).await.unwrap();
        let reference = Reference::open(&path);
        for sample in &samples {
            let name = &sample.name;
            let array = reference.array(name);
            assert_eq!(
                (array.dtype, array.shape.as_slice()),
                (sample.dtype, sample.shape)
            );
            assert!(array.bytes == sample.cells, "{name}: cells differ");
            // The compression level changes the stored bytes but not the answers, so only raw and
            // level 3 are queried.
            if [-5, 19]
                .map(|level| Compression::Zstd { level })
                .contains(&compression)
            {
                continue;
            }
            assert_sample(&file, sample).await;
            let ask = |operation| {
                reference.query(&format!("{{\"dataset\":\"{name}\",\"{operation}\":[]}}"))
            };
            let theirs = [
                ask("sum").operation_sum,
                ask("min").operation_min,
                ask("max").operation_max,
                ask("mean").operation_mean,
            ];
            let sql = format!(
                "SELECT sum(x), min(x), max(x), avg(x) \
                 FROM (SELECT CAST(value AS DOUBLE) AS x FROM f.\"{name}\")"
            );
            let batches = file.query(&sql).await.unwrap();
            let ours = batches[0]
                .columns()
                .iter()
                .map(|column| from_column(column)[0]);
            let theirs = theirs.map(|answer| Some(answer.unwrap().to_bits()));
            assert_same(&ours.collect::<Vec<_>>(), &theirs, name);
        }
    }
}

#[tokio::test]
async fn tetration_reads_our_payloads_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("order.tet");
    let specs = vec![
        DatasetSpec::new("a", Dtype::U16, &[5], &[2]),
        DatasetSpec::new("b", Dtype::F64, &[3], &[2]),
    ];
    let mut writer = TetWriter::create(&path, specs).unwrap();
    let cells = |cells: &[u16]| {
        cells
            .iter()
            .flat_map(|cell| cell.to_le_bytes())
            .collect::<Vec<_>>()
    };
    writer.write_chunk(0, &[2], &cells(&[5])).unwrap();
    // The payload starts two bytes after the previous one, so it is not aligned.
    writer.write_chunk(1, &[1], &7.5f64.to_le_bytes()).unwrap();
    writer.write_chunk(0, &[0], &cells(&[1, 2])).unwrap();
    writer
        .write_chunk(1, &[0], &[0.5f64, 1.5].map(f64::to_le_bytes).concat())
        .unwrap();
    writer.write_chunk(0, &[1], &cells(&[3, 4])).unwrap();
    writer.finish().unwrap();
    assert!(verify(&path).ok);
    let reference = Reference::open(&path);
    let expected = cells(&[1, 2, 3, 4, 5]);
    assert_eq!(reference.array("a").bytes, expected);
    assert_eq!(
        reference.query(r#"{"dataset":"b","sum":[]}"#).operation_sum,
        Some(9.5)
    );
    for access in ACCESS {
        let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
            .await
            .unwrap();
        assert_reads(&file, "a", &counted(&[5]), Dtype::U16, &expected).await;
        let b: Vec<Cell> = [0.5f64, 1.5, 7.5].map(|cell| Some(cell.to_bits())).to_vec();
        assert_same(&file.table("b", &counted(&[3])).await, &b, "b");
    }
}

#[tokio::test]
async fn tetration_reads_our_footers() {
    let folder = tempfile::tempdir().unwrap();
    let places = ["w", "x", "y", "z"];
    for spills in [false, true] {
        let path = folder.path().join(format!("footer_{spills}.tet"));
        let mut spec = DatasetSpec::new("a", Dtype::F32, &[3, 4], &[2, 3])
            .with_dim_names(["time", "place"])
            .with_labels("time", ["2024-01-01", "2024-01-02", "2024-01-03"])
            .with_labels("1", places)
            .with_attribute("units", "K")
            .with_attribute("_FillValue", "-9");
        let mut other = DatasetSpec::new("b", Dtype::U8, &[2], &[2]);
        if spills {
            for number in 0..60 {
                let text = "long ".repeat(204);
                spec = spec.with_attribute(&format!("note {number}"), &text);
                other = other.with_attribute(&format!("note {number}"), &text);
            }
        }
        let mut writer = TetWriter::create(&path, vec![spec, other]).unwrap();
        writer.set_file_metadata(FileMetadata {
            tool: Some("tet-sql".to_string()),
            ..FileMetadata::default()
        });
        writer.push_history("write", "test", 1_700_000_000);
        writer.push_history("transform", "test", 1_700_000_001);
        let mut cells = stored_cells(Dtype::F32, &[3, 4], 3);
        cells[..4].copy_from_slice(&(-9f32).to_le_bytes());
        writer.write_dataset(0, &cells).unwrap();
        writer.write_dataset(1, &[1, 2]).unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let has_spill = bytes
            .windows(14)
            .any(|window| window == b"\"metadata_ref\"");
        assert_eq!(has_spill, spills);

        let report = verify(&path);
        assert!(report.ok, "{:?}", report.findings);
        let reference = Reference::open(&path);
        let history: Vec<_> = reference
            .summary
            .history
            .iter()
            .map(|row| (row.op.as_str(), row.source.as_str(), row.at.as_str()))
            .collect();
        assert_eq!(
            history,
            [
                ("write", "test", "1700000000"),
                ("transform", "test", "1700000001")
            ]
        );
        let metadata = &reference.summary.metadata;
        assert_eq!(
            metadata.file.as_ref().unwrap().tool.as_deref(),
            Some("tet-sql")
        );
        let a = &metadata.datasets["a"];
        assert_eq!(a.attrs.len(), if spills { 62 } else { 2 });
        assert_eq!(a.attrs["units"], "K");
        assert_eq!(a.dim_names.as_deref().unwrap(), ["time", "place"]);
        assert_eq!(a.coords.as_ref().unwrap()["1"].labels, places);
        assert_eq!(reference.array("a").bytes, cells);

        // Both sum one slice: `tetration` by label, where the end is exclusive, SQL by coordinate.
        let json = r#"{"dataset":"a","selection":[{"start_label":"2024-01-02"},{"start_label":"x","stop_label":"z"}],"sum":[]}"#;
        let theirs = reference.query(json).operation_sum;
        let filter = "time >= '2024-01-02' AND place IN ('x', 'y')";
        for access in ACCESS {
            let file = OpenFile::open(&path, ArrayOptions::new().with_access(access))
                .await
                .unwrap();
            let ours = file
                .number(&format!("SELECT sum(value) FROM f.a WHERE {filter}"))
                .await;
            assert_eq!(ours, theirs);
            let missing = "SELECT count(*) FROM f.a WHERE value IS NULL";
            let stored = from_stored(Dtype::F32, &cells);
            let expected = stored
                .iter()
                .filter(|cell| number(Dtype::F32, cell.unwrap()) == -9.0)
                .count();
            assert_eq!(file.answer(missing).await, expected.to_string());
        }
    }
}
