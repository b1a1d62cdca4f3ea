//! The limits as settings.

use datafusion::common::config::{ConfigEntry, ConfigField};
use datafusion::common::{Result, config_err};

/// The maximum of `tet.max_expression_operators`. Planning and evaluation recurse once per operator, on
/// the stacks of the commands and the server.
const MAX_OPERATORS: usize = 5_000;

/// Limits of a statement and of the values it creates: `SET tet.max_plan_nodes = 50000`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// `tet.max_statement_bytes`: bytes of the statement's text.
    pub statement_bytes: usize,
    /// `tet.max_expression_operators`: operators of one expression. ANDs and ORs are counted
    /// separately: [`ANDS_PER_OPERATOR`](super::ANDS_PER_OPERATOR) and
    /// [`ORS_PER_OPERATOR`](super::ORS_PER_OPERATOR) times as many are allowed. At most 5,000.
    pub expression_operators: usize,
    /// `tet.max_plan_nodes`: nodes of the plan, with every common table expression and view counted
    /// at each use.
    pub plan_nodes: usize,
    /// `tet.max_value_bytes`: bytes of one string or list that a function such as `repeat` creates.
    pub value_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            statement_bytes: 64 << 20,
            expression_operators: 1_250,
            plan_nodes: 20_000,
            value_bytes: 64 << 20,
        }
    }
}

impl Limits {
    /// The names of the settings, without `tet.`.
    pub const NAMES: [&'static str; 4] = [
        "max_statement_bytes",
        "max_expression_operators",
        "max_plan_nodes",
        "max_value_bytes",
    ];

    /// Sets the limit with this name, one of [`Self::NAMES`].
    ///
    /// # Errors
    /// Fails if the value is not a positive integer or exceeds what is possible, or the name is unknown.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let mut number = 0usize;
        ConfigField::set(&mut number, "", value)?;
        if number == 0 {
            return config_err!("tet.{name}: found 0, expected at least 1");
        }
        match name {
            "max_statement_bytes" => self.statement_bytes = number,
            "max_expression_operators" if number > MAX_OPERATORS => {
                return config_err!("tet.{name}: found {number}, expected at most {MAX_OPERATORS}");
            }
            "max_expression_operators" => self.expression_operators = number,
            "max_plan_nodes" => self.plan_nodes = number,
            "max_value_bytes" => self.value_bytes = number,
            _ => return config_err!("unknown setting tet.{name}"),
        }
        Ok(())
    }

    /// The settings with their values and descriptions.
    pub fn entries(&self) -> [ConfigEntry; 4] {
        let [bytes, operators, nodes, value] = Self::NAMES;
        [
            (bytes, self.statement_bytes, "Bytes of a statement's text"),
            (
                operators,
                self.expression_operators,
                "Operators of one expression; it may have eight times as many ANDs, and sixteen times as many ORs",
            ),
            (
                nodes,
                self.plan_nodes,
                "Nodes of a statement's plan, with WITH queries and views counted at each use",
            ),
            (
                value,
                self.value_bytes,
                "Bytes of one string or list that repeat, lpad, array_repeat and the like make",
            ),
        ]
        .map(|(name, value, description)| ConfigEntry {
            key: format!("tet.{name}"),
            value: Some(value.to_string()),
            description,
        })
    }
}
