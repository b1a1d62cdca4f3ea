//! Queries of DataFusion's `DataFrame`.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::logical_expr::{col, lit};

use crate::support::sql::{session, texts};

/// DataFusion takes `b` for a key of the groups of `(b, x)`, and adds `x` to the groups of `b`.
#[tokio::test]
async fn groups_of_groups_have_the_keys_of_the_query() {
    let ctx = session();
    let points =
        "SELECT column1 AS a, column2 AS x FROM (VALUES (1, 10), (1, 20), (2, 10), (2, 20))";
    let points = ctx.sql(points).await.unwrap();
    let keys = "SELECT column1 AS b FROM (VALUES (1), (2), (2)) GROUP BY column1";
    let keys = ctx.sql(keys).await.unwrap();
    let joined = points.join(keys, JoinType::Inner, &["a"], &["b"], None);
    let groups = joined
        .unwrap()
        .aggregate(vec![col("b"), col("x")], vec![count(lit(1)).alias("n")])
        .unwrap();
    let sums = groups
        .aggregate(vec![col("b")], vec![sum(col("n")).alias("total")])
        .unwrap();
    let sums = sums.select(vec![col("b"), col("total")]).unwrap();
    let sums = sums.sort(vec![col("b").sort(true, false)]).unwrap();
    assert_eq!(texts(&sums.collect().await.unwrap()), ["1 2", "2 2"]);
}
