//! Random queries over one table.

use super::case::TestTable;
use super::column::TestColumn;
use super::random::Random;

/// A query over tables that exist twice: `{t}` stands for `ours` or `theirs`.
#[derive(Debug)]
pub struct Query {
    pub sql: String,
    /// `true` if the query orders its rows.
    pub is_ordered: bool,
    /// `true` if zeros of either sign count as the same answer. DataFusion treats them as equal, so
    /// which of them a group or a minimum shows depends on the order of rows.
    pub zeros_are_equal: bool,
}

impl Query {
    pub fn rows(sql: String) -> Self {
        Self {
            sql,
            is_ordered: false,
            zeros_are_equal: false,
        }
    }

    pub fn summary(sql: String) -> Self {
        Self {
            zeros_are_equal: true,
            ..Self::rows(sql)
        }
    }
}

impl TestTable {
    fn columns(&self) -> impl Iterator<Item = &TestColumn> {
        self.dimensions.iter().chain(&self.values)
    }

    pub fn list(columns: &[&TestColumn], alias: &str) -> String {
        let names: Vec<_> = columns
            .iter()
            .map(|column| format!("{alias}{}", column.name))
            .collect();
        names.join(", ")
    }

    /// Returns a predicate nested up to `depth`. `alias` precedes every column.
    pub fn predicate(&self, random: &mut Random, alias: &str, depth: usize) -> String {
        if depth > 0 && random.chance(45) {
            let left = self.predicate(random, alias, depth - 1);
            let right = self.predicate(random, alias, depth - 1);
            return match random.below(6) {
                0 | 1 => format!("({left} AND {right})"),
                2..=4 => format!("({left} OR {right})"),
                _ => format!("NOT ({left})"),
            };
        }
        if random.chance(8) {
            let (one, other) = (random.pick(&self.dimensions), random.pick(&self.dimensions));
            if one.values.data_type() == other.values.data_type() {
                let comparison = random.pick(&["<", "=", ">="]);
                return format!("{alias}{} {comparison} {alias}{}", one.name, other.name);
            }
        }
        if random.chance(8) {
            let (one, other) = (random.pick(&self.dimensions), random.pick(&self.values));
            if one.is_numeric() {
                return format!("{alias}{} < {alias}{}", one.name, other.name);
            }
        }
        let columns = match random.chance(45) {
            true => &self.values,
            false => &self.dimensions,
        };
        random.pick(columns).predicate(random, alias)
    }

    /// Returns a WHERE clause, or an empty string.
    pub fn condition(&self, random: &mut Random, alias: &str) -> String {
        let count = *random.pick(&[0, 1, 1, 2, 3]);
        let predicates: Vec<_> = (0..count)
            .map(|_| self.predicate(random, alias, 2))
            .collect();
        match predicates.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", predicates.join(" AND ")),
        }
    }

    /// Returns a WHERE clause over dimensions only, or an empty string.
    fn slice(&self, random: &mut Random) -> String {
        if random.chance(40) {
            return String::new();
        }
        let predicates: Vec<_> = random
            .some(&self.dimensions, 40)
            .iter()
            .map(|dimension| dimension.predicate(random, ""))
            .collect();
        format!(" WHERE {}", predicates.join(" AND "))
    }

    pub fn query(&self, random: &mut Random) -> Query {
        let condition = self.condition(random, "");
        let name = &self.name;
        let all: Vec<_> = self.columns().collect();
        let chosen = random.some(&all, 50);
        let list = Self::list(&chosen, "");
        let aggregates = aggregates(random, &self.values, "");
        match random.below(19) {
            13..=18 => self.groups(random, &condition, usize::MAX),
            0..=2 => Query::rows(format!("SELECT {list} FROM {name}{condition}")),
            3 => Query::summary(format!("SELECT {aggregates} FROM {name}{condition}")),
            4 => Query::summary(format!(
                "SELECT {list}, {aggregates} FROM {name}{condition} GROUP BY {list}"
            )),
            // Aggregates that statistics may answer.
            5 | 6 => {
                let condition = match random.chance(70) {
                    true => self.slice(random),
                    false => condition,
                };
                let extremes = min_and_max(random, &all);
                Query::summary(format!(
                    "SELECT count(*), {aggregates}{extremes} FROM {name}{condition}"
                ))
            }
            7 | 8 => self.top(random, &condition),
            9 => Query::summary(format!("SELECT DISTINCT {list} FROM {name}{condition}")),
            10 => {
                // Without an order any rows may come, but their number is determined.
                let (limit, offset) = (random.below(30), random.below(5));
                Query::rows(format!(
                    "SELECT count(*) FROM \
                     (SELECT {list} FROM {name}{condition} LIMIT {limit} OFFSET {offset})"
                ))
            }
            _ => {
                let word = match condition.is_empty() {
                    true => " WHERE",
                    false => " AND",
                };
                let subquery = self.subquery(random);
                Query::rows(format!(
                    "SELECT {list} FROM {name}{condition}{word} {subquery}"
                ))
            }
        }
    }

    /// Aggregates many rows by up to two dimensions, which bounds the number of groups.
    pub fn large_query(&self, random: &mut Random) -> Query {
        let condition = match random.chance(30) {
            true => format!(
                " WHERE {}",
                random.pick(&self.values).comparison(random, "")
            ),
            false => String::new(),
        };
        self.groups(random, &condition, 2)
    }

    /// Returns aggregates of all kinds, grouped by at most `most` expressions over dimensions.
    fn groups(&self, random: &mut Random, condition: &str, most: usize) -> Query {
        let condition = match random.chance(50) {
            true => self.slice(random),
            false => condition.to_string(),
        };
        let mut keys = Vec::new();
        if random.chance(85) {
            for dimension in random.some(&self.dimensions, 55) {
                keys.push(dimension.key(random));
            }
        }
        while keys.len() > most {
            keys.swap_remove(random.below(most));
        }
        if random.chance(10)
            && keys.len() < most
            && let Some(dimension) = self.dimensions.first()
        {
            keys.push(dimension.key(random));
        }
        if random.chance(20)
            && keys.len() < most
            && let Some([one, other]) = self.two_dimensions(random)
        {
            let predicate = one.predicate(random, "");
            keys.push(match random.chance(50) {
                true => format!("CASE WHEN {predicate} THEN {} END", other.key(random)),
                false => format!("({predicate} OR {})", other.predicate(random, "")),
            });
        }
        let mut list: Vec<String> = Vec::new();
        for number in 0..1 + random.below(4) {
            list.push(format!("{} AS a{number}", self.aggregate(random)));
        }
        let keys_list: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(number, key)| format!("{key} AS k{number}"))
            .collect();
        let by = match keys.is_empty() {
            true => String::new(),
            false if random.chance(12) => {
                let sets = random.pick(&["ROLLUP", "CUBE"]);
                format!(" GROUP BY {sets} ({})", keys.join(", "))
            }
            false => format!(" GROUP BY {}", keys.join(", ")),
        };
        let having = match random.chance(20) && !keys.is_empty() {
            true => format!(" HAVING count(*) > {}", random.below(4)),
            false => String::new(),
        };
        let columns = keys_list.iter().chain(&list).cloned().collect::<Vec<_>>();
        let from = match random.chance(15) {
            true => format!(
                "(SELECT * FROM {0} UNION ALL SELECT * FROM {0}) AS both",
                self.name
            ),
            false => self.name.clone(),
        };
        Query::summary(format!(
            "SELECT {} FROM {from}{condition}{by}{having}",
            columns.join(", ")
        ))
    }

    /// Returns two dimensions, if there are any two.
    fn two_dimensions(&self, random: &mut Random) -> Option<[&TestColumn; 2]> {
        let count = self.dimensions.len();
        (count > 1).then(|| {
            let one = random.below(count);
            let other = (one + 1 + random.below(count - 1)) % count;
            [&self.dimensions[one], &self.dimensions[other]]
        })
    }

    /// Returns an aggregate that does not depend on the order of rows.
    fn aggregate(&self, random: &mut Random) -> String {
        let all: Vec<_> = self.columns().collect();
        let column = match random.chance(75) {
            true => random.pick(&self.values),
            false => *random.pick(&all),
        };
        let name = &column.name;
        let filter = match random.chance(25) {
            true => {
                let columns = match random.chance(60) {
                    true => &self.values,
                    false => &self.dimensions,
                };
                let mut predicate = random.pick(columns).predicate(random, "");
                if random.chance(30)
                    && let Some([one, other]) = self.two_dimensions(random)
                {
                    let (one, other) = (one.predicate(random, ""), other.predicate(random, ""));
                    let operator = random.pick(&["AND", "OR"]);
                    predicate = format!("{predicate} {operator} ({one} OR {other})");
                }
                format!(" FILTER (WHERE {predicate})")
            }
            false => String::new(),
        };
        if random.chance(20) {
            return self.of_dimension(random);
        }
        let aggregate = match random.below(20) {
            0 => "count(*)".to_string(),
            1 => format!("count(DISTINCT {name})"),
            2 | 3 if !column.has_nan => {
                let function = random.pick(&["min", "max"]);
                format!("{function}({name})")
            }
            4..=6 if column.is_tame => {
                let function = random.pick(&["sum", "avg", "sum", "avg", "median"]);
                format!("{function}({name})")
            }
            7 if column.is_tame => format!("avg({name} * 2)"),
            8 if column.is_tame => format!("sum(CAST({name} AS DOUBLE))"),
            9 if column.is_tame => {
                let function = random.pick(&["var_samp", "var_pop", "stddev", "stddev_pop"]);
                // The last digits depend on the order of rows.
                return format!("round({function}({name}){filter} * 4096) / 4096");
            }
            10 if column.is_numeric() && !column.has_nan => {
                let function = random.pick(&["bool_and", "bool_or"]);
                format!("{function}({name} > 1)")
            }
            // Integer sums wrap, whatever the order of rows.
            11 | 12 if column.is_integer() => format!("sum({name})"),
            13 => {
                let function = random.pick(&["arg_min", "arg_max"]);
                format!("{function}({}, {name})", random.pick(&all).name)
            }
            // Powers of two, so the product is exact.
            14 if column.is_numeric() && !column.has_nan => {
                format!("product(CASE WHEN {name} > 1 THEN 2.0 ELSE -0.5 END)")
            }
            15 if column.is_tame => format!("norm_l1({name})"),
            16 if column.is_tame => {
                return format!("round(norm_l2({name}){filter} * 4096) / 4096");
            }
            17 if column.is_numeric() => format!("histogram({name}, -3, 12.5, 7)"),
            18 if column.is_tame => {
                format!(
                    "quantile({name}, {})",
                    random.pick(&["0", "0.25", "0.9", "1"])
                )
            }
            _ => format!("count({name})"),
        };
        aggregate + &filter
    }

    /// Returns an aggregate of an expression over one dimension.
    fn of_dimension(&self, random: &mut Random) -> String {
        let dimension = random.pick(&self.dimensions);
        let name = &dimension.name;
        let key = dimension.key(random);
        let distinct = random.pick(&["", "DISTINCT "]);
        let predicate = dimension.predicate(random, "");
        let aggregate = match random.below(9) {
            0 if !dimension.has_nan => format!("min({key})"),
            1 if !dimension.has_nan => format!("max({key})"),
            2 if dimension.is_tame => format!("sum({distinct}{name})"),
            3 if dimension.is_tame => format!("avg({distinct}{name})"),
            // The argument may be null.
            4 if dimension.is_tame => format!("sum(CASE WHEN {predicate} THEN {name} END)"),
            5 => format!("count(CASE WHEN {predicate} THEN {name} END)"),
            6 => format!("bool_or({predicate})"),
            7 => "count(*)".to_string(),
            _ => format!("count(DISTINCT {key})"),
        };
        match random.chance(40) {
            true => format!(
                "{aggregate} FILTER (WHERE {})",
                dimension.predicate(random, "")
            ),
            false => aggregate,
        }
    }

    /// Returns all columns ordered by all of them, so that tied rows are identical.
    fn top(&self, random: &mut Random, condition: &str) -> Query {
        // In DataFusion 55.2, top-k treats zeros of either sign as equal but a sort does not.
        let all = self.columns();
        let mut columns: Vec<_> = all.filter(|column| !column.has_negative_zero).collect();
        if columns.is_empty() {
            return Query::rows(format!("SELECT count(*) FROM {}{condition}", self.name));
        }
        for position in (1..columns.len()).rev() {
            columns.swap(position, random.below(position + 1));
        }
        let list = Self::list(&columns, "");
        let order: Vec<_> = columns
            .iter()
            .map(|column| {
                let direction = random.pick(&["", " ASC", " DESC"]);
                let nulls = random.pick(&["", " NULLS FIRST", " NULLS LAST"]);
                format!("{}{direction}{nulls}", column.name)
            })
            .collect();
        let limit = match random.chance(80) {
            true => format!(" LIMIT {}", random.below(20)),
            false => String::new(),
        };
        Query {
            is_ordered: true,
            ..Query::rows(format!(
                "SELECT {list} FROM {}{condition} ORDER BY {}{limit}",
                self.name,
                order.join(", ")
            ))
        }
    }

    /// Returns a predicate that compares a column with a subquery.
    fn subquery(&self, random: &mut Random) -> String {
        let name = &self.name;
        let slice = self.slice(random);
        let all: Vec<_> = self.columns().collect();
        let column = random.pick(&all);
        let comparison = random.pick(&["=", "<", ">=", "<>"]);
        let tame: Vec<_> = self.values.iter().filter(|value| value.is_tame).collect();
        match random.below(4) {
            0 if !tame.is_empty() => {
                let value = &random.pick(&tame).name;
                format!("{value} {comparison} (SELECT avg({value}) FROM {name}{slice})")
            }
            1 => {
                let negated = random.pick(&["", "NOT "]);
                format!(
                    "{} {negated}IN (SELECT k FROM few_{})",
                    column.name,
                    self.small_table_suffix(column)
                )
            }
            _ if column.has_nan => format!("{} IS NOT NULL", column.name),
            _ => {
                let function = random.pick(&["min", "max"]);
                format!(
                    "{0} {comparison} (SELECT {function}({0}) FROM {name}{slice})",
                    column.name
                )
            }
        }
    }

    /// The suffix of the small table that holds values of a column.
    pub fn small_table_suffix<'a>(&self, column: &'a TestColumn) -> &'a str {
        let is_dimension = self.dimensions.iter().any(|one| one.name == column.name);
        if is_dimension { &column.name } else { "value" }
    }
}

/// Returns aggregates of value columns that do not depend on the order of rows.
pub fn aggregates(random: &mut Random, columns: &[TestColumn], alias: &str) -> String {
    let column = random.pick(columns);
    let name = format!("{alias}{}", column.name);
    let mut list = format!("count({name})");
    if column.is_tame {
        list += &format!(", sum({name}), avg({name})");
    }
    if !column.has_nan {
        list += &format!(", min({name}), max({name})");
    }
    list
}

fn min_and_max(random: &mut Random, columns: &[&TestColumn]) -> String {
    let column = random.pick(columns);
    match column.has_nan {
        true => format!(", count({}) AS known", column.name),
        false => format!(", min({0}) AS least, max({0}) AS greatest", column.name),
    }
}
