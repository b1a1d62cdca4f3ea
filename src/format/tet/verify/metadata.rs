//! Checks that the footer is within the limits of the format and matches the datasets.

use std::collections::HashSet;

use crate::format::array::DatasetMetadata;
use crate::format::io::storage::Access;
use crate::format::tet::file::TetFile;
use crate::format::tet::limits::{
    MAX_ATTRIBUTES, MAX_DESCRIBED, MAX_HISTORY, MAX_LABELS, MAX_TEXT, is_allowed,
};
use crate::format::tet::repair::anatomy::Anatomy;
use crate::format::tet::superblock::MAX_RANK;
use crate::format::tet::verify::{Report, Subject, number_of};

const REWRITE_FILE: &str =
    "write the file again from its source, or its data by COPY ... STORED AS TET";

/// Checks the footer of a file.
pub(super) fn check_footer(file: &TetFile, anatomy: &Anatomy, report: &mut Report) {
    let flags = anatomy.superblock.map_or(0, |superblock| superblock.flags);
    if flags & 1 == 0 {
        report.note("the file has none");
        let mut tail = [0; 4];
        let start = anatomy.length.checked_sub(4);
        let is_there = start.is_some_and(|start| {
            let read = file.storage().copy_range(Access::Pread, start, &mut tail);
            read.is_ok() && tail == *b"THST"
        });
        if is_there {
            report.warn(
                Subject::default(),
                "flag bit 0 is 0, but the file ends like one with a footer, which is left unread"
                    .to_string(),
                "if the footer belongs to the file, write the file again",
            );
        }
    }
    if flags & !1 != 0 {
        let message = format!("flags are {flags:#x}, expected only bit 0 to be set");
        report.warn(Subject::default(), message, "harmless: readers ignore them");
    }
    let Some(footer) = &anatomy.footer else {
        return;
    };
    report.begin(
        "footer_metadata",
        format!(
            "{}, metadata of {}",
            number_of(footer.history.len() as u64, "history row"),
            number_of(footer.metadata.datasets.len() as u64, "dataset")
        ),
    );
    for (count, most, what) in [
        (footer.history.len(), MAX_HISTORY, "history rows"),
        (
            footer.metadata.datasets.len(),
            MAX_DESCRIBED,
            "datasets with metadata",
        ),
    ] {
        if count > most {
            let message = format!("{count} {what}, expected at most {most}");
            report.error(Subject::default(), message, REWRITE_FILE);
        }
    }
    for (name, metadata) in &footer.metadata.datasets {
        match file.dataset(name) {
            Some(dataset) => check_dataset(name, metadata, dataset.shape(), report),
            None => report.warn(
                Subject::dataset(name),
                format!("metadata of a dataset {name:?}, which the file does not have"),
                "harmless: the attribute is ignored",
            ),
        }
    }
}

fn check_dataset(name: &str, metadata: &DatasetMetadata, shape: &[u64], report: &mut Report) {
    let subject = || Subject::dataset(name);
    let names = &metadata.dim_names;
    let distinct: HashSet<_> = names.iter().collect();
    if !names.is_empty() && (names.len() != shape.len() || distinct.len() != names.len()) {
        let message = format!(
            "dim_names is {names:?}, expected {} distinct names, one per dimension",
            shape.len()
        );
        report.error(subject(), message, REWRITE_FILE);
    }
    if metadata.coords.len() > MAX_RANK {
        let message = format!(
            "coords of {} axes, expected at most {MAX_RANK}",
            metadata.coords.len()
        );
        report.error(subject(), message, REWRITE_FILE);
    }
    if metadata.attrs.len() > MAX_ATTRIBUTES {
        let message = format!(
            "{} attributes, expected at most {MAX_ATTRIBUTES}",
            metadata.attrs.len()
        );
        report.error(subject(), message, REWRITE_FILE);
    }
    for (axis, labels) in &metadata.coords {
        if labels.labels.len() > MAX_LABELS {
            let message = format!(
                "{} labels on axis {axis:?}, expected at most {MAX_LABELS}",
                labels.labels.len()
            );
            report.error(
                subject(),
                message,
                "write the coordinates as a dataset of their own: COPY ... STORED AS TET does",
            );
        }
        let position = names.iter().position(|name| name == axis);
        let position = position.or_else(|| axis.parse().ok());
        let extent = position.and_then(|position| shape.get(position));
        if extent.is_some_and(|extent| *extent != labels.labels.len() as u64) {
            let message = format!(
                "{} labels on axis {axis:?}, expected {}, its extent",
                labels.labels.len(),
                extent.copied().unwrap_or_default()
            );
            report.error(
                subject(),
                message,
                "the labels are ignored; write the file again",
            );
        }
    }
    let labels = metadata.coords.iter();
    let texts = labels
        .flat_map(|(axis, labels)| std::iter::once(axis).chain(&labels.labels))
        .chain(metadata.attrs.iter().flat_map(|(key, value)| [key, value]))
        .chain(names);
    for text in texts {
        if !is_allowed(text) {
            let message = format!(
                "a text of {} bytes, expected 1 to {MAX_TEXT}: {:?}",
                text.len(),
                text.chars().take(20).collect::<String>()
            );
            report.error(subject(), message, REWRITE_FILE);
        }
    }
}
