//! Checks that options of a conversion apply to the arrays that are converted.

use std::collections::BTreeSet;

use datafusion::common::{Result, plan_err};

use crate::format::array::{ArrayFile, Dataset};
use crate::provider::adapters::arrays::base;
use crate::provider::adapters::file_kind::FileKind;
use crate::provider::convert::ConvertOptions;

/// Returns a warning if no dataset takes the names of dimensions that the options give.
///
/// # Errors
/// Fails if no dataset has as many dimensions as the chunk shape of the options.
pub(super) fn check_options(
    file: &dyn ArrayFile,
    datasets: &[&Dataset],
    target: FileKind,
    options: &ConvertOptions,
) -> Result<Option<String>> {
    let names = |dataset: &Dataset| {
        let metadata = file.metadata(dataset);
        metadata.map_or(&[] as &[String], |metadata| metadata.dim_names.as_slice())
    };
    if let Some(chunk) = options.chunk.as_ref().filter(|_| target != FileKind::Npy) {
        let is_coordinate = |dataset: &Dataset| names(dataset) == [base(dataset.name())];
        let all = || datasets.iter().copied();
        let mut ranks: BTreeSet<usize> = all()
            .filter(|dataset| !is_coordinate(dataset))
            .map(|dataset| dataset.shape().len())
            .collect();
        if ranks.is_empty() {
            ranks = all().map(|dataset| dataset.shape().len()).collect();
        }
        if !ranks.contains(&chunk.len()) {
            let ranks: Vec<String> = ranks.iter().map(usize::to_string).collect();
            return plan_err!(
                "{}: --chunk has {} extents, expected one for each of the {} dimensions",
                file.path().display(),
                chunk.len(),
                ranks.join(" or ")
            );
        }
    }
    let Some(dims) = &options.dims else {
        return Ok(None);
    };
    let takes = |dataset: &&Dataset| {
        let own = base(dataset.name());
        let is_coordinate = dataset.shape().len() == 1 && dims.iter().any(|name| name == own);
        names(dataset).is_empty() && (is_coordinate || dataset.shape().len() == dims.len())
    };
    Ok((!datasets.iter().any(takes)).then(|| {
        format!(
            "--dims has no effect: no array has {} dimensions without names",
            dims.len()
        )
    }))
}
