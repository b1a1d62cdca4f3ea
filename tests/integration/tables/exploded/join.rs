//! Random queries over two tables.

use super::case::TestTable;
use super::query::{Query, aggregates};
use super::random::Random;

/// Joins with more rows are compared by their aggregates instead of row by row.
const MAX_ROWS: usize = 2_000;

/// Generates a join of two tables of a case.
pub fn join(random: &mut Random, tables: &[TestTable]) -> Query {
    match random.below(6) {
        0 => with_small_table(random, tables),
        5 => groups_with_small_table(random, tables),
        1 => semi_or_anti_join(random, tables),
        _ => on_dimensions(random, tables),
    }
}

/// Joins with a few values of one column, which reach the scan as a dynamic filter.
fn with_small_table(random: &mut Random, tables: &[TestTable]) -> Query {
    let table = random.pick(tables);
    let columns: Vec<_> = table.dimensions.iter().chain(&table.values).collect();
    let column = random.pick(&columns);
    let condition = table.condition(random, "x.");
    let (few, name) = (table.small_table_suffix(column), &column.name);
    let all = TestTable::list(&columns, "x.");
    let from = format!(
        "{} x JOIN few_{few} s ON x.{name} = s.k{condition}",
        table.name
    );
    match random.chance(50) {
        true => Query::rows(format!("SELECT {all} FROM {from}")),
        false => {
            let aggregates = aggregates(random, &table.values, "x.");
            Query::summary(format!("SELECT count(*), {aggregates} FROM {from}"))
        }
    }
}

/// Groups by a dimension and joins the groups with a few of its values.
fn groups_with_small_table(random: &mut Random, tables: &[TestTable]) -> Query {
    let table = random.pick(tables);
    let dimension = random.pick(&table.dimensions);
    let condition = table.condition(random, "");
    let aggregates = aggregates(random, &table.values, "");
    let name = &dimension.name;
    let groups = format!(
        "SELECT {name}, count(*), {aggregates} FROM {}{condition} GROUP BY {name}",
        table.name
    );
    Query::summary(format!(
        "SELECT x.* FROM ({groups}) x JOIN few_{} s ON x.{name} = s.k",
        table.small_table_suffix(dimension)
    ))
}

/// Generates a semi or anti join.
fn semi_or_anti_join(random: &mut Random, tables: &[TestTable]) -> Query {
    let (left, right) = (random.pick(tables), random.pick(tables));
    let dimension = &random.pick(&left.dimensions).name;
    let negated = random.pick(&["", "NOT "]);
    let list: Vec<_> = left.dimensions.iter().chain(&left.values).collect();
    let list = TestTable::list(&random.some(&list, 60), "x.");
    let inner = right.predicate(random, "y.", 1);
    let outer = left.predicate(random, "x.", 1);
    let subquery = match random.chance(50) {
        true => format!(
            "{negated}EXISTS (SELECT 1 FROM {} y WHERE y.{dimension} = x.{dimension} AND {inner})",
            right.name
        ),
        false => format!(
            "x.{dimension} {negated}IN (SELECT y.{dimension} FROM {} y WHERE {inner})",
            right.name
        ),
    };
    Query::rows(format!(
        "SELECT {list} FROM {} x WHERE {subquery} AND {outer}",
        left.name
    ))
}

fn on_dimensions(random: &mut Random, tables: &[TestTable]) -> Query {
    let (left, right) = (random.pick(tables), random.pick(tables));
    let dimensions: Vec<_> = left.dimensions.iter().collect();
    let joined = match random.chance(60) {
        true => dimensions,
        false => random.some(&dimensions, 60),
    };
    let equal: Vec<_> = joined
        .iter()
        .map(|dimension| format!("x.{0} = y.{0}", dimension.name))
        .collect();
    let kind = random.pick(&["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]);
    let on = match random.chance(25) {
        true => format!(" AND {}", right.predicate(random, "y.", 1)),
        false => String::new(),
    };
    let on = format!("{}{on}", equal.join(" AND "));
    let from = if *kind == "JOIN" {
        let condition = left.condition(random, "x.");
        format!("{} x JOIN {} y ON {on}{condition}", left.name, right.name)
    } else {
        // Above an outer join, use only predicates that are false for null: DataFusion 55.2 pushes
        // others to the wrong side.
        let condition = match random.chance(40) {
            true => format!(
                " WHERE {}",
                random.pick(&left.values).comparison(random, "x.")
            ),
            false => String::new(),
        };
        format!(
            "(SELECT * FROM {}{}) x {kind} (SELECT * FROM {}{}) y ON {on}{condition}",
            left.name,
            left.condition(random, ""),
            right.name,
            right.condition(random, "")
        )
    };
    let keys = TestTable::list(&joined, "x.");
    let (of_left, of_right) = (random.pick(&left.values), random.pick(&right.values));
    let is_large = left.rows.saturating_mul(right.rows / joined.len().max(1)) > MAX_ROWS;
    match is_large || random.chance(40) {
        false => Query::rows(format!(
            "SELECT {keys}, x.{}, y.{} FROM {from}",
            of_left.name, of_right.name
        )),
        true => {
            let one = aggregates(random, &left.values, "x.");
            let other = aggregates(random, &right.values, "y.");
            let group = match random.chance(50) {
                true => format!(" GROUP BY x.{}", joined[0].name),
                false => String::new(),
            };
            Query::summary(format!(
                "SELECT count(*), {one}, {other} FROM {from}{group}"
            ))
        }
    }
}
