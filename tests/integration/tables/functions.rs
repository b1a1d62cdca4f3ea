//! Functions that replace DataFusion's, at the limits of their types.

use crate::support::sql::{rows, session};

#[tokio::test]
async fn min_and_max_of_infinities_and_nan() {
    let values = "(VALUES (1, 'inf'::DOUBLE), (1, 'inf'), (2, '-inf'), (3, 'nan'), (3, 1.0), (4, 1.0), (4, 'nan'), (5, 'nan'), (6, NULL)) \
                  AS t(g, x)";
    for data_type in ["DOUBLE", "REAL"] {
        let sql = format!(
            "SELECT g, min(x::{data_type}), max(x::{data_type}) FROM {values} GROUP BY g ORDER BY g"
        );
        let expected = [
            "1 inf inf",
            "2 -inf -inf",
            "3 1.0 NaN",
            "4 1.0 NaN",
            "5 NaN NaN",
            "6 NULL NULL",
        ];
        assert_eq!(rows(&session(), &sql).await, expected);
    }
}

#[tokio::test]
async fn times_outside_the_nanosecond_range_can_be_binned() {
    let times = "(SELECT arrow_cast(n * 86400000000 + 32514048000000000, 'Timestamp(Microsecond, None)') AS t \
                 FROM generate_series(0, 1) AS g(n))";
    let sql = format!(
        "SELECT date_trunc('year', t), date_trunc('day', t), date_bin(INTERVAL '1 day', t), date_bin(INTERVAL '3 months', t) \
         FROM {times} ORDER BY t"
    );
    let expected = [
        "3000-01-01T00:00:00 3000-05-01T00:00:00 3000-05-01T00:00:00 3000-04-01T00:00:00",
        "3000-01-01T00:00:00 3000-05-02T00:00:00 3000-05-02T00:00:00 3000-04-01T00:00:00",
    ];
    assert_eq!(rows(&session(), &sql).await, expected);
    let sql =
        "SELECT date_trunc('month', arrow_cast(32514048000000000, 'Timestamp(Microsecond, None)'))";
    assert_eq!(rows(&session(), sql).await, ["3000-05-01T00:00:00"]);
}

#[tokio::test]
async fn quantiles_use_the_fraction_as_given() {
    let sql = "SELECT quantile(x, 0.1234567), quantile(x, 0.999999999), quantile(x, 0), quantile(x, 1) FROM \
               (VALUES (4.0), (1.0), (2.0), (3.0), (NULL)) AS t(x)";
    // numpy.quantile([4, 1, 2, 3], ...)
    assert_eq!(
        rows(&session(), sql).await,
        ["1.3703701000000001 3.999999997 1.0 4.0"]
    );
    let sql = "SELECT g, quantile(x, 0.9999999), percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC) FROM \
               (VALUES (1, 0.0), (1, 1.0), (2, 5.0), (3, NULL)) AS t(g, x) GROUP BY g ORDER BY g";
    assert_eq!(
        rows(&session(), sql).await,
        ["1 0.9999999 0.75", "2 5.0 5.0", "3 NULL NULL"]
    );
}
