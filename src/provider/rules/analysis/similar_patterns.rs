//! `SIMILAR TO` with the patterns of the SQL standard.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Like, Operator, ScalarUDF, lit};

use crate::provider::functions::comparisons::similar_to::{SimilarPattern, regular_expression};

/// The escape character of patterns without `ESCAPE`.
const ESCAPE: char = '\\';

/// Replaces `SIMILAR TO` by a match of a regular expression:
///
/// ```text
///  x SIMILAR TO 'a%'        x ~ '^(?s:a.*)$'
///  x NOT SIMILAR TO y       x !~ tet_similar_pattern(y, '\')
/// ```
///
/// DataFusion 55 takes the pattern itself as a regular expression, which may match any part of the text.
#[derive(Debug)]
pub(crate) struct SimilarPatterns;

impl FunctionRewrite for SimilarPatterns {
    fn name(&self) -> &str {
        "similar_patterns"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        let Expr::SimilarTo(Like {
            negated,
            expr,
            pattern,
            escape_char,
            case_insensitive,
        }) = expr
        else {
            return Ok(Transformed::no(expr));
        };
        let escape = escape_char.unwrap_or(ESCAPE);
        let constant = match pattern.as_ref() {
            Expr::Literal(value, _) => value.try_as_str().flatten(),
            _ => None,
        };
        let pattern = match (constant, pattern.get_type(schema)?) {
            (Some(pattern), _) => lit(regular_expression(pattern, escape)?),
            (None, DataType::Null) => lit(ScalarValue::Utf8(None)),
            (None, data_type) if data_type.is_string() => {
                let translate = ScalarUDF::from(SimilarPattern::new());
                translate.call(vec![*pattern, lit(escape.to_string())])
            }
            (None, other) => {
                return plan_err!("SIMILAR TO: found a pattern of type {other}, expected a text");
            }
        };
        let op = match (negated, case_insensitive) {
            (false, false) => Operator::RegexMatch,
            (false, true) => Operator::RegexIMatch,
            (true, false) => Operator::RegexNotMatch,
            (true, true) => Operator::RegexNotIMatch,
        };
        let matched = BinaryExpr::new(expr, op, Box::new(pattern));
        Ok(Transformed::yes(Expr::BinaryExpr(matched)))
    }
}
