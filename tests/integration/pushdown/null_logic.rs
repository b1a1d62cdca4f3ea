//! Predicates over NULL and over zeros of both signs, and set operations, compared with truth
//! values computed here.

use tet_sql::create_logical_plan;

use crate::support::sql::{rows, session, texts};

type Truth = Option<bool>;

/// Computes the truth value of a predicate for a given `x`.
type Predicate = dyn Fn(Option<i64>) -> Truth;

fn not(one: Truth) -> Truth {
    one.map(|one| !one)
}

fn and(one: Truth, other: Truth) -> Truth {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

fn or(one: Truth, other: Truth) -> Truth {
    not(and(not(one), not(other)))
}

/// `x IN (list)` by its definition in SQL.
fn is_in(x: Option<i64>, list: &[Option<i64>]) -> Truth {
    let equal = |item: &Option<i64>| Some(x? == (*item)?);
    list.iter().map(equal).fold(Some(false), or)
}

fn text(list: &[Option<i64>]) -> String {
    let items = list
        .iter()
        .map(|item| item.map_or("NULL".to_string(), |item| item.to_string()));
    items.collect::<Vec<_>>().join(", ")
}

fn shown(truth: Truth) -> &'static str {
    match truth {
        Some(true) => "true",
        Some(false) => "false",
        None => "NULL",
    }
}

const XS: [Option<i64>; 6] = [Some(1), Some(2), Some(3), Some(4), Some(5), None];
const TABLE: &str = "(VALUES (1), (2), (3), (4), (5), (NULL)) AS t(x)";

#[tokio::test]
async fn combined_in_lists_follow_three_valued_logic() {
    let lists: [&[Option<i64>]; 5] = [
        &[Some(1), Some(2)],
        &[Some(3), Some(4)],
        &[Some(2), Some(3)],
        &[Some(1), None],
        &[Some(1), Some(2), Some(3), Some(4)],
    ];
    let ctx = session();
    let mut predicates: Vec<(String, Box<Predicate>)> = Vec::new();
    for one in lists {
        for other in lists {
            for (is_one_negated, is_other_negated) in [(false, false), (true, false), (true, true)]
            {
                let of = move |x, list: &[Option<i64>], is_negated| match is_negated {
                    true => not(is_in(x, list)),
                    false => is_in(x, list),
                };
                let word = |is_negated| if is_negated { "x NOT IN" } else { "x IN" };
                let left = format!("{} ({})", word(is_one_negated), text(one));
                let right = format!("{} ({})", word(is_other_negated), text(other));
                for (shape, is_and, is_negated) in [
                    (format!("{left} AND {right}"), true, false),
                    (format!("{left} OR {right}"), false, false),
                    (format!("NOT ({left} AND {right})"), true, true),
                    (format!("NOT ({left} OR {right})"), false, true),
                ] {
                    let truth = move |x| {
                        let (left, right) =
                            (of(x, one, is_one_negated), of(x, other, is_other_negated));
                        let both = if is_and {
                            and(left, right)
                        } else {
                            or(left, right)
                        };
                        if is_negated { not(both) } else { both }
                    };
                    predicates.push((shape, Box::new(truth)));
                }
            }
        }
    }
    type PlainPredicate = fn(Option<i64>) -> Truth;
    let equalities: [(&str, PlainPredicate); 4] = [
        ("NOT ((x = 1 OR x = 2) AND (x = 3 OR x = 4))", |x| {
            not(and(
                is_in(x, &[Some(1), Some(2)]),
                is_in(x, &[Some(3), Some(4)]),
            ))
        }),
        ("NOT (x IN (1, 2)) OR NOT (x IN (3, 4))", |x| {
            or(
                not(is_in(x, &[Some(1), Some(2)])),
                not(is_in(x, &[Some(3), Some(4)])),
            )
        }),
        ("x IN (1, 2) AND (x = 1 OR x IS NULL OR x IN (4, 5))", |x| {
            and(
                is_in(x, &[Some(1), Some(2)]),
                or(is_in(x, &[Some(1), Some(4), Some(5)]), Some(x.is_none())),
            )
        }),
        (
            "x NOT IN (1, 2) OR x NOT IN (3, 4) OR x NOT IN (1, 5)",
            |x| {
                let no = |list: &[Option<i64>]| not(is_in(x, list));
                or(
                    or(no(&[Some(1), Some(2)]), no(&[Some(3), Some(4)])),
                    no(&[Some(1), Some(5)]),
                )
            },
        ),
    ];
    for (shape, truth) in equalities {
        predicates.push((shape.to_string(), Box::new(truth)));
    }
    // Test many predicates per query, since planning takes longer than execution.
    for some in predicates.chunks(40) {
        let columns = some
            .iter()
            .enumerate()
            .map(|(number, (shape, _))| format!("{shape} AS p{number}"));
        let sql = format!(
            "SELECT {} FROM {TABLE}",
            columns.collect::<Vec<_>>().join(", ")
        );
        let found = rows(&ctx, &sql).await;
        for (row, x) in found.iter().zip(XS) {
            for (found, (shape, truth)) in row.split(' ').zip(some) {
                assert_eq!(found, shown(truth(x)), "{shape} where x is {x:?}");
            }
        }
    }
    for (shape, truth) in predicates.iter().step_by(7) {
        let sql = format!("SELECT count(*) FROM {TABLE} WHERE {shape}");
        let expected = XS.iter().filter(|x| truth(**x) == Some(true)).count();
        assert_eq!(rows(&ctx, &sql).await, [expected.to_string()], "{shape}");
    }
}

#[tokio::test]
async fn items_that_are_columns_are_not_compared_by_name() {
    let sql = "SELECT x, x IN (a, c) AND x IN (b, d) FROM (VALUES (1, 1, 1, 0, 0), (1, 1, 2, 3, 4)) AS t(x, a, b, c, d)";
    assert_eq!(rows(&session(), sql).await, ["1 true", "1 false"]);
}

#[tokio::test]
async fn in_subqueries_below_or_and_not_handle_null() {
    let ctx = session();
    let sets: [(&str, &[Option<i64>]); 4] = [
        ("(VALUES (1), (2))", &[Some(1), Some(2)]),
        ("(VALUES (1), (NULL))", &[Some(1), None]),
        ("(VALUES (NULL::BIGINT))", &[None]),
        ("(SELECT 1 AS y WHERE false)", &[]),
    ];
    for (set, items) in sets {
        let inner = format!("(SELECT y FROM {set} AS q(y))");
        let shapes: [(String, &Predicate); 5] = [
            (format!("x NOT IN {inner} OR x = 5"), &|x| {
                or(not(is_in(x, items)), x.map(|x| x == 5))
            }),
            (format!("x IN {inner} OR x = 5"), &|x| {
                or(is_in(x, items), x.map(|x| x == 5))
            }),
            (format!("NOT (x IN {inner} AND x < 4)"), &|x| {
                not(and(is_in(x, items), x.map(|x| x < 4)))
            }),
            (format!("NOT (x NOT IN {inner} OR x > 4)"), &|x| {
                not(or(not(is_in(x, items)), x.map(|x| x > 4)))
            }),
            (format!("(x NOT IN {inner}) IS NULL"), &|x| {
                Some(is_in(x, items).is_none())
            }),
        ];
        for (shape, truth) in shapes {
            let sql = format!("SELECT x FROM {TABLE} WHERE {shape} ORDER BY x");
            let expected = XS.into_iter().filter(|x| truth(*x) == Some(true));
            let expected: Vec<_> = expected.map(|x| text(&[x])).collect();
            assert_eq!(rows(&ctx, &sql).await, expected, "{sql}");
        }
    }
    let sql = "SELECT x FROM (VALUES (1, 10), (2, 20), (NULL, 30)) AS t(x, k) WHERE x NOT IN \
               (SELECT y FROM (VALUES (1, 10), (NULL, 20)) AS q(y, l) WHERE l = k) OR x = 7 ORDER BY x";
    assert_eq!(rows(&ctx, sql).await, ["NULL"]);
}

#[tokio::test]
async fn set_operations_count_equal_rows() {
    let ctx = session();
    let left = "SELECT * FROM (VALUES (1), (1), (1), (2), (NULL), (NULL)) AS a(x)";
    let right = "SELECT * FROM (VALUES (1), (2), (2), (NULL)) AS b(y)";
    for (operation, expected) in [
        ("EXCEPT ALL", ["1", "1", "NULL"]),
        ("INTERSECT ALL", ["1", "2", "NULL"]),
    ] {
        let sql = format!("SELECT * FROM ({left} {operation} {right}) ORDER BY 1");
        assert_eq!(rows(&ctx, &sql).await, expected, "{operation}");
    }
    let sql = format!("SELECT * FROM ({left} INTERSECT {right}) ORDER BY 1");
    assert_eq!(rows(&ctx, &sql).await, ["1", "2", "NULL"]);
    let sql = format!("SELECT count(*) FROM ({left} EXCEPT {right})");
    assert_eq!(rows(&ctx, &sql).await, ["0"]);
    // The right input has another type.
    let sql =
        format!("SELECT * FROM ({left} EXCEPT ALL SELECT y::DOUBLE FROM ({right})) ORDER BY 1");
    assert_eq!(rows(&ctx, &sql).await, ["1", "1", "NULL"]);
    // Zeros of both signs are equal, so two of three remain.
    let sql = "SELECT count(*) FROM (SELECT * FROM (VALUES (-0.0), (-0.0), (0.0)) AS a(x) EXCEPT ALL SELECT 0.0)";
    assert_eq!(rows(&ctx, sql).await, ["2"]);
    // A filter that makes the column equal to an expression.
    let numbers = "SELECT value % 4 * 1.5 AS x FROM range(100)";
    ctx.sql(&format!("CREATE TABLE numbers AS {numbers}"))
        .await
        .unwrap();
    let filtered = "SELECT x FROM numbers WHERE coalesce(x, 0.0) = x";
    for (sql, expected) in [
        (format!("{filtered} EXCEPT ALL SELECT 1.5"), "99"),
        (
            format!("SELECT x FROM numbers INTERSECT ALL {filtered}"),
            "100",
        ),
    ] {
        let sql = format!("SELECT count(*) FROM ({sql})");
        assert_eq!(rows(&ctx, &sql).await, [expected], "{sql}");
    }
}

#[tokio::test]
async fn both_zeros_are_equal() {
    let sql = "SELECT x IN (0.0, 1.0, 2.0, 3.0), x NOT IN (-0.0, 1.0, 2.0, 3.0), CASE x WHEN 0.0 THEN 'zero' ELSE 'none' END, \
               x IN (0.0) AND x IN (-0.0, 1.0) FROM (VALUES (-0.0), (0.0)) AS t(x)";
    let expected = "true false zero true";
    assert_eq!(rows(&session(), sql).await, [expected, expected]);
    // Chains of comparisons become lists, short ones in DataFusion's simplifier and long ones in the parser.
    let chain = |count: usize, number: &str, operator: &str, comparison: &str| {
        let terms = (0..count).map(|n| format!("x {comparison} {n}{number}"));
        terms.collect::<Vec<_>>().join(operator)
    };
    let mut predicates = vec![
        ("x IN (0, 1, 2, 3)".to_string(), "2"),
        ("x NOT IN (0, 1, 2, 3)".to_string(), "1"),
    ];
    for count in [4, 40] {
        for number in ["", ".0"] {
            predicates.push((chain(count, number, " OR ", "="), "2"));
            predicates.push((chain(count, number, " AND ", "<>"), "1"));
        }
    }
    for (predicate, expected) in predicates {
        let zeros = "(VALUES (-0.0), (0.0), (-50.0), (NULL)) AS t(x)";
        let sql = format!("SELECT count(*) FROM {zeros} WHERE {predicate}");
        assert_eq!(rows(&session(), &sql).await, [expected], "{sql}");
    }
    let sql = "SELECT count(DISTINCT x), count(DISTINCT x) FILTER (WHERE y > 0), count(DISTINCT y), sum(y) \
               FROM (VALUES (-0.0, 1), (0.0, 2), (1.5, 3), (NULL, 4)) AS t(x, y)";
    assert_eq!(rows(&session(), sql).await, ["2 2 4 10"]);
    // Alone, as two nested groupings.
    let alone = "SELECT count(DISTINCT x) FROM (VALUES (-0.0), (0.0), (1.5)) AS t(x)";
    assert_eq!(rows(&session(), alone).await, ["2"]);
    let plan = rows(&session(), &format!("EXPLAIN {alone}"))
        .await
        .join("\n");
    assert!(!plan.contains("CASE"), "{plan}");
}

#[tokio::test]
async fn row_comparisons_and_distinct_from_are_parsed_correctly() {
    let ctx = session();
    let pairs = "(VALUES (80, 0), (-80, 350), (80, 350), (NULL, 0)) AS t(lat, lon)";
    let among = format!("SELECT count(*) FROM {pairs} WHERE (lat, lon) IN ((80, 0), (-80, 350))");
    let others =
        format!("SELECT count(*) FROM {pairs} WHERE (lat, lon) NOT IN ((80, 0), (-80, 350))");
    let typed = "SELECT (d, n) IN ((DATE '2024-01-01', -1)) FROM (VALUES (DATE '2024-01-01', -1)) AS t(d, n)";
    let nested = "SELECT NOT 1 IS NOT DISTINCT FROM 2 AND 2 IS DISTINCT FROM 2 OR true";
    for (sql, expected) in [
        ("SELECT 1 IS DISTINCT FROM 2 AND true", "true"),
        (nested, "true"),
        (among.as_str(), "2"),
        (others.as_str(), "1"),
        (typed, "true"),
    ] {
        let plan = create_logical_plan(&ctx.state(), sql).await.unwrap();
        let frame = ctx.execute_logical_plan(plan).await.unwrap();
        assert_eq!(texts(&frame.collect().await.unwrap()), [expected], "{sql}");
    }
}
