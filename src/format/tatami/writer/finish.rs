//! Writes everything after the row groups: blob runs, dictionaries, Bloom filters, the search segment and
//! the footer.

use crate::error::{Error, Result};
use crate::format::tatami::layout::footer::{BLOOM_KIND, BloomRef, SORT_KEY_KEY, VERSION_KEY};
use crate::format::tatami::layout::header::{
    FLAG_BLOBS, FLAG_BLOCK_TREE, FLAG_DICTIONARIES, FLAG_INDEXES, FLAG_SEARCH_SEGMENT, FLAG_SORTED,
    FileHeader, MAJOR_VERSION, MINOR_VERSION, TRAILER_BYTES, Trailer,
};
use crate::format::tatami::writer::{SearchSegment, TatamiWriter, WrittenFile, blobs, spool};

impl TatamiWriter {
    /// Writes the rest of the file, with the inverted index of a search segment if there is one.
    pub(super) fn finish_with(mut self, segment: Option<SearchSegment<'_>>) -> Result<WrittenFile> {
        self.check_not_failed()?;
        let rows = self.rows();
        if let Some(segment) = segment.as_ref().filter(|segment| segment.documents != rows) {
            let message = format!(
                "the search index has {} documents, expected one for each of {rows} rows",
                segment.documents
            );
            return Err(Error::invalid(self.output.target(), message));
        }
        if self.group_rows > 0 {
            self.finish_group()?;
        }
        self.finish_blobs()?;
        for (record, length) in std::mem::take(&mut self.blooms) {
            let spool = spool(&mut self.spool, &self.output)?;
            self.footer.blooms.push(BloomRef {
                offset: self.output.copy(spool, record)?,
                length,
                kind: BLOOM_KIND,
            });
        }
        if let Some(segment) = segment {
            self.footer.inverted = Some(segment.write(&mut self.output)?);
        }
        self.finish_footer()
    }

    /// Writes the blob runs and the dictionaries.
    fn finish_blobs(&mut self) -> Result<()> {
        let mut dictionaries = Vec::new();
        for mut blobs in std::mem::take(&mut self.blobs).into_iter().flatten() {
            let spool = spool(&mut self.spool, &self.output)?;
            blobs.finish(&mut self.compressor, spool)?;
            let (mut column, dictionary) = blobs.copy(spool, &mut self.output)?;
            for run in &column.runs {
                self.footer.stats.raw_bytes += run.raw_size;
                self.footer.stats.stored_bytes += run.stored_size;
            }
            if let Some(dictionary) = dictionary {
                column.dictionary = Some(dictionaries.len());
                dictionaries.push(dictionary);
            }
            self.footer.blobs.push(column);
        }
        for dictionary in dictionaries {
            let (reference, stored_size) =
                blobs::write_dictionary(&dictionary, &mut self.compressor, &mut self.output)?;
            self.footer.stats.raw_bytes += reference.raw_size;
            self.footer.stats.stored_bytes += stored_size;
            self.footer.dictionaries.push(reference);
        }
        Ok(())
    }

    /// Writes the footer, the trailer and the header, and renames the file to the target.
    fn finish_footer(mut self) -> Result<WrittenFile> {
        let footer = &mut self.footer;
        let version = format!("{MAJOR_VERSION}.{MINOR_VERSION}");
        footer.key_values = vec![(VERSION_KEY.to_string(), version)];
        if let Some(key) = footer.schema.sort_key() {
            let name = footer.schema.fields[key].name.clone();
            footer.key_values.push((SORT_KEY_KEY.to_string(), name));
        }
        footer.key_values.append(&mut self.options.key_values);
        let mut flags = 0;
        for (is_set, flag) in [
            (footer.schema.sort_key().is_some(), FLAG_SORTED),
            (!footer.blobs.is_empty(), FLAG_BLOBS),
            (!footer.dictionaries.is_empty(), FLAG_DICTIONARIES),
            (
                !footer.blooms.is_empty() || footer.inverted.is_some(),
                FLAG_INDEXES,
            ),
            (
                footer.inverted.is_some(),
                FLAG_SEARCH_SEGMENT | FLAG_BLOCK_TREE,
            ),
        ] {
            if is_set {
                flags |= flag;
            }
        }
        let header = FileHeader {
            flags,
            default_codec: self.options.codec().id(),
            page_size_hint: self.options.page_size_hint,
            uuid: self.options.uuid,
            rows: footer.stats.rows,
            footer_offset: self.output.position(),
            created_ms: self.options.created_ms,
            creator: self.options.creator,
            ..FileHeader::default()
        };
        let bytes = footer.encode();
        let Ok(footer_length) = u32::try_from(bytes.len()) else {
            let message = format!(
                "the footer takes {} bytes, expected at most {}; write larger row groups",
                bytes.len(),
                u32::MAX
            );
            return Err(Error::invalid(self.output.target(), message));
        };
        let trailer = Trailer {
            footer_length,
            footer_crc: crc32c::crc32c(&bytes),
        };
        self.output.write(&bytes)?;
        self.output.write(&trailer.encode())?;
        self.output.overwrite(0, &header.encode())?;
        let length = header.footer_offset + u64::from(footer_length) + TRAILER_BYTES;
        self.output.persist()?;
        Ok(WrittenFile {
            header,
            footer: self.footer,
            trailer,
            length,
            first_unsorted_row: self.first_unsorted_row,
        })
    }
}
