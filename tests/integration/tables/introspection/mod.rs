//! The functions that describe files, checked against the `tetration` crate, the file system and
//! arithmetic.

mod agreement;
mod blocks;
mod chunks;
mod files;
mod names;

use std::path::Path;

use tet_sql::format::tet::{DatasetSpec, Dtype};
use tetration::catalog::embed_indexes_in_tet;

use crate::cells;
use crate::support::sql::write;

fn quoted(name: &str) -> String {
    format!("\"{name}\"")
}

/// Writes ten days with one chunk of ten cells each: day d holds 10 d to 10 d + 9. All of day 4 is
/// missing.
fn days(path: &Path) {
    let numbers = (0..100).map(|n| if n / 10 == 4 { -999.0 } else { n as f32 });
    let labels = (0..10).map(|day| (100 - day).to_string());
    let spec = DatasetSpec::new("v", Dtype::F32, &[10, 10], &[1, 10])
        .with_dim_names(["day", "place"])
        .with_labels("day", labels)
        .with_attribute("_FillValue", "-999");
    let wide = DatasetSpec::new("w", Dtype::I64, &[10, 10], &[4, 6])
        .with_dim_names(["day", "place"])
        .with_labels("day", (0..10).map(|day| (100 - day).to_string()));
    write(path, &[(spec, cells!(numbers)), (wide, cells!(0..100i64))]);
    embed_indexes_in_tet(path, 0).unwrap();
}
