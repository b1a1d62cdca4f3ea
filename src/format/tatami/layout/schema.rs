//! The columns of a file.

use std::collections::HashSet;

use crate::format::fault::Fault;
use crate::format::tatami::bytes::{Cursor, put_byte_string, put_varint};
use crate::format::tatami::layout::types::ColumnType;

/// Field flag: the column may have nulls.
pub const FIELD_NULLABLE: u8 = 1;
/// Field flag: the column is the sort key. Rows need not be sorted by it.
pub const FIELD_SORT_KEY: u8 = 1 << 1;
/// Field flag: values are stored apart from the pages. Set only for blob columns, and ignored for others.
pub const FIELD_BLOB_SEPARATED: u8 = 1 << 2;
/// Field flag: a hint to use dictionary encoding. It has no effect.
pub const FIELD_DICTIONARY_HINT: u8 = 1 << 3;
/// Field flag: column chunks have Bloom filters.
pub const FIELD_BLOOM: u8 = 1 << 4;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name, unique in the file.
    pub name: String,
    /// The type.
    pub column_type: ColumnType,
    /// The `FIELD_*` bits.
    pub flags: u8,
    /// The type id of the elements of a list. 0 for other types.
    pub element_type: u8,
}

impl Field {
    /// Returns `true` if all bits of `flag` are set.
    pub fn has_flag(&self, flag: u8) -> bool {
        self.flags & flag == flag
    }

    /// Returns `true` if the column may have nulls.
    pub fn is_nullable(&self) -> bool {
        self.has_flag(FIELD_NULLABLE)
    }
}

/// The columns of a file, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    /// The columns.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Parses a schema. Fails if there is no column, a name is empty or repeated, a type is unknown, or
    /// several columns are the sort key.
    pub fn parse(fields: &mut Cursor<'_>) -> Result<Self, Fault> {
        let fields = fields.list("number of columns", 4, |fields| {
            let name = fields.text("column name")?;
            let id = fields.byte("column type")?;
            Ok(Field {
                name: name.to_string(),
                column_type: column_type("column type", id, name)?,
                flags: fields.byte("column flags")?,
                element_type: fields.byte("element type")?,
            })
        })?;
        let schema = Self { fields };
        schema.check()?;
        Ok(schema)
    }

    /// Checks the number of columns, their names and the sort key.
    pub fn check(&self) -> Result<(), Fault> {
        if self.fields.is_empty() {
            return Err(Fault::new("number of columns", 0, "1 or more"));
        }
        let mut names = HashSet::with_capacity(self.fields.len());
        for field in &self.fields {
            if field.name.is_empty() || !names.insert(field.name.as_str()) {
                let expected = "a name that is not empty and not repeated";
                return Err(Fault::new(
                    "column name",
                    format!("{:?}", field.name),
                    expected,
                ));
            }
        }
        let is_key = |field: &&Field| field.has_flag(FIELD_SORT_KEY);
        let keys = self.fields.iter().filter(is_key).count();
        if keys > 1 {
            return Err(Fault::new("number of sort keys", keys, "at most 1"));
        }
        Ok(())
    }

    /// Appends the schema as stored.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.fields.len() as u64);
        for field in &self.fields {
            put_byte_string(out, field.name.as_bytes());
            out.extend_from_slice(&[field.column_type.id(), field.flags, field.element_type]);
        }
    }

    /// Returns the index of the column with exactly this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// Returns the index of the sort key.
    pub fn sort_key(&self) -> Option<usize> {
        self.fields
            .iter()
            .position(|field| field.has_flag(FIELD_SORT_KEY))
    }
}

/// Returns the type with this id. Fails if there is none. `column` names the column in the error message.
pub(crate) fn column_type(field: &'static str, id: u8, column: &str) -> Result<ColumnType, Fault> {
    ColumnType::from_id(id)
        .ok_or_else(|| Fault::new(field, format!("{id} for {column:?}"), "a type from 0 to 15"))
}
