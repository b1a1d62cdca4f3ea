//! URLs in place of tables, without their passwords and signatures, and options of stores.

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Value, VisitorMut};

use crate::provider::remote::{RemoteStores, StoreOptions};
use crate::provider::sql::walk::walk_mut;

/// Replaces the URLs that stand for tables by their text without secrets. The session keeps the
/// secrets, so that neither EXPLAIN nor an error shows them.
pub(super) fn hide_secrets(state: &SessionState, mut statement: &mut Statement) {
    let mut urls = Urls(RemoteStores::of(state.config()));
    while let Statement::Explain(explain) = statement {
        statement = &mut explain.statement;
    }
    let _: ControlFlow<()> = match statement {
        Statement::Statement(statement) => walk_mut(statement, &mut urls),
        Statement::CopyTo(copy) => {
            if let Ok(shown) = urls.0.admit(&copy.target) {
                copy.target = shown;
            }
            let options = taken(&mut copy.options);
            if !options.is_empty() {
                urls.0.put_options(&copy.target, options);
            }
            match &mut copy.source {
                CopyToSource::Query(query) => walk_mut(query, &mut urls),
                CopyToSource::Relation(name) => urls.pre_visit_relation(name),
            }
        }
        _ => ControlFlow::Continue(()),
    };
}

/// Removes the options of stores from those of a `COPY`, whose plan shows all options.
fn taken(options: &mut Vec<(String, Value)>) -> StoreOptions {
    let text = |value: &Value| match value.clone().into_string() {
        Some(text) => text,
        None => value.to_string(),
    };
    let texts = options.iter();
    let mut texts = texts
        .map(|(key, value)| (key.clone(), text(value)))
        .collect();
    let taken = StoreOptions::take(&mut texts);
    options.retain(|(key, _)| texts.contains_key(key));
    taken
}

struct Urls(Arc<RemoteStores>);

impl VisitorMut for Urls {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        for part in &mut relation.0 {
            if let ObjectNamePart::Identifier(ident) = part {
                let (url, dataset) = match ident.value.rsplit_once('#') {
                    Some((url, dataset)) => (url, format!("#{dataset}")),
                    None => (ident.value.as_str(), String::new()),
                };
                // A malformed URL is reported when the table is opened.
                if let Ok(shown) = self.0.admit(url) {
                    ident.value = format!("{shown}{dataset}");
                }
            }
        }
        ControlFlow::Continue(())
    }
}
