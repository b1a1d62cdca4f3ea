//! `.plot`: draws the result of the last query.

use crate::failure::Failure;
use crate::output::picture;
use crate::run::Shell;
use std::path::PathBuf;
use tet_sql_plot::ChartKind;

impl Shell {
    /// Runs the last query again and draws its result on the terminal or to a file.
    pub(crate) fn plot(
        &self,
        kind: Option<ChartKind>,
        path: Option<PathBuf>,
    ) -> Result<(), Failure> {
        if self.manner.read_only && path.is_some() {
            return Err(Failure::message("--read-only: no files are written"));
        }
        let query = self.last_query()?;
        let context = self.context.clone();
        let chart = self.engine.run(move |_| async move {
            let chart = picture::chart(&context, &query, kind).await;
            Ok(chart?.0)
        })?;
        match path {
            Some(path) => picture::write(&chart, &path),
            None => self.write_text(picture::draw(&chart)),
        }
    }
}
