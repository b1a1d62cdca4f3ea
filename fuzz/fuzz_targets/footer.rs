//! The input is the JSON of a footer, or of metadata that it refers to, in an otherwise sound file.
//! Its first byte selects which of the two, the footer's version, and whether the footer refers to
//! the zone maps and the secondary index.

#![no_main]

mod container;

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tet_sql::Access;
use tet_sql::format::tet::repair::anatomy::Anatomy;
use tet_sql::format::tet::{Categories, LabelRule, TetFile};

use container::{
    FileRegions, SECONDARY_INDEX, ZONE_MAPS, append_footer, append_region, both, check, is_checked, open,
    read_chunks, read_postings, read_zones, sample, told, with_file,
};

static SAMPLE: LazyLock<FileRegions> = LazyLock::new(sample);

/// Reads the metadata of every dataset. Metadata of datasets that the file does not have is read
/// with a made-up shape.
fn describe(file: &TetFile) -> String {
    let mut told = String::new();
    for dataset in file.datasets() {
        told += &format!("{:?}", file.metadata(dataset).is_some());
    }
    for (name, metadata) in &file.footer().metadata.datasets {
        let shape = file
            .dataset(name)
            .map_or(&[3, 2, 3][..], |dataset| dataset.shape());
        for axis in 0..shape.len() + 1 {
            let bound = metadata.labels(&metadata.dim_names, axis, shape);
            if let Some((labels, LabelRule::Length)) = bound {
                assert_eq!(labels.len() as u64, shape[axis]);
            }
            told += &format!("{bound:?}");
        }
        let categories = metadata.attrs.get(Categories::ATTRIBUTE);
        if let Some(Ok(categories)) = categories.map(|text| Categories::parse(text)) {
            assert_eq!(categories.is_empty(), categories.len() == 0);
            assert!(
                categories
                    .missing()
                    .is_none_or(|code| categories.text(code).is_none())
            );
            told += &format!("{:?} {:?}", categories.text(0), categories.text(-1));
        }
    }
    told
}

fuzz_target!(|bytes: &[u8]| {
    let Some((selector, json)) = bytes.split_first() else {
        return;
    };
    let mut file = SAMPLE.assemble(&SAMPLE.rows, &SAMPLE.payloads);
    let payload_end = file.len();
    let zone_maps = append_region(&mut file, "zone_maps_ref", ZONE_MAPS.as_bytes());
    let index = append_region(&mut file, "secondary_index_ref", SECONDARY_INDEX.as_bytes());
    let mut footer = match selector & 2 {
        0 => json.to_vec(),
        _ => format!("{{{}}}", append_region(&mut file, "metadata_ref", json)).into_bytes(),
    };
    if selector & 4 != 0 && footer.first() == Some(&b'{') {
        footer.splice(..1, format!("{{{zone_maps},{index},").into_bytes());
    }
    append_footer(&mut file, 1 + u32::from(selector & 1), &footer);
    let access = match selector & 8 {
        0 => Access::Mmap,
        _ => Access::Pread,
    };
    with_file(&file, |path| {
        let opened = both(|access| {
            let file = told(open(path, access, false))?;
            let anatomy = Anatomy::of(path, access).expect("a file");
            assert_eq!(anatomy.footer.as_ref(), Some(file.footer()));
            let documents = (read_zones(&file, access), read_postings(&file, access));
            let chunks = read_chunks(&file, access);
            Ok::<_, String>((describe(&file), file.footer().clone(), documents, chunks))
        });
        both(|access| {
            let file = open(path, access, true).expect("a sound file but for its footer");
            assert!(read_chunks(&file, access).iter().any(Result::is_ok));
        });
        if !is_checked(bytes) {
            return;
        }
        let errors = check(path, access, &file, payload_end);
        assert!(errors > 0 || opened.is_ok());
        // A footer that cannot be read is cut off by the repair.
        open(path, access, false).expect("a repaired file");
    });
});
