//! The SELECT lists of queries whose tables have keys.

use datafusion::sql::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, SelectItem, WildcardAdditionalOptions,
};

use crate::provider::sql::using_keys::Rewriter;
use crate::provider::sql::using_keys::syntax::{Column, named, unique_index};

impl Rewriter<'_> {
    /// Rewrites the items of a SELECT: expands `*` to all columns, and makes keys one column under
    /// their own name. Returns `None` if an item cannot be rewritten.
    pub(super) fn projection(
        &self,
        items: &[SelectItem],
        columns: &[Column],
    ) -> Option<Vec<SelectItem>> {
        if !columns.iter().any(|column| column.is_key) {
            return Some(items.to_vec());
        }
        let mut projection = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard(options) => {
                    projection.extend(self.wildcard(options, columns)?);
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    let name = self.normalize(name);
                    let keys = columns.iter().filter(|column| column.name == name);
                    match keys.collect::<Vec<_>>().as_slice() {
                        [key] if key.is_key => projection.push(named(key)),
                        _ => projection.push(item.clone()),
                    }
                }
                item => projection.push(item.clone()),
            }
        }
        for key in columns.iter().filter(|column| column.is_key) {
            let item = named(key);
            let has_its_name = |other: &SelectItem| match other {
                SelectItem::QualifiedWildcard(..) => true,
                other => *other != item && self.name_of(other).as_ref() == Some(&key.name),
            };
            // DataFusion rejects `a.k` beside an unqualified `k`, so the key is named by its
            // expression.
            if projection.iter().any(has_its_name) {
                for other in projection.iter_mut().filter(|other| **other == item) {
                    *other = SelectItem::UnnamedExpr(key.expr.clone());
                }
            }
        }
        Some(projection)
    }

    fn wildcard(
        &self,
        options: &WildcardAdditionalOptions,
        columns: &[Column],
    ) -> Option<Vec<SelectItem>> {
        if options.opt_ilike.is_some()
            || options.opt_rename.is_some()
            || options.opt_alias.is_some()
        {
            return None;
        }
        let mut left_out = Vec::new();
        match &options.opt_exclude {
            Some(ExcludeSelectItem::Single(name)) => left_out.push(name),
            Some(ExcludeSelectItem::Multiple(names)) => left_out.extend(names),
            None => {}
        }
        let left_out = left_out.into_iter().map(|name| match name.0.as_slice() {
            [part] => part.as_ident(),
            _ => None,
        });
        let mut left_out: Vec<&Ident> = left_out.collect::<Option<_>>()?;
        if let Some(except) = &options.opt_except {
            left_out.push(&except.first_element);
            left_out.extend(&except.additional_elements);
        }
        let left_out: Vec<_> = left_out.iter().map(|name| self.normalize(name)).collect();
        // DataFusion reports unknown names.
        if !left_out
            .iter()
            .all(|name| unique_index(columns, name).is_some())
        {
            return None;
        }
        let mut items: Vec<_> = columns
            .iter()
            .filter(|column| !left_out.contains(&column.name))
            .map(|column| (column.name.clone(), named(column)))
            .collect();
        for replaced in options
            .opt_replace
            .iter()
            .flat_map(|replace| &replace.items)
        {
            let name = self.normalize(&replaced.column_name);
            let mut same = items.iter_mut().filter(|(other, _)| *other == name);
            let (Some((_, item)), None) = (same.next(), same.next()) else {
                return None;
            };
            *item = SelectItem::ExprWithAlias {
                expr: replaced.expr.clone(),
                alias: replaced.column_name.clone(),
            };
        }
        Some(items.into_iter().map(|(_, item)| item).collect())
    }

    /// The name of the column that an item becomes, if the item is a column or has an alias.
    pub(super) fn name_of(&self, item: &SelectItem) -> Option<String> {
        match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(self.normalize(alias)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(self.normalize(name)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => {
                names.last().map(|name| self.normalize(name))
            }
            _ => None,
        }
    }

    /// Returns `true` if an item has this alias.
    pub(super) fn is_alias(&self, item: &SelectItem, name: &str) -> bool {
        matches!(item, SelectItem::ExprWithAlias { alias, .. } if self.normalize(alias) == name)
    }
}
