//! `tatami_search`, `tatami_terms` and `matches`.

use arrow::array::AsArray;
use arrow::datatypes::{Float32Type, UInt64Type};
use datafusion::prelude::SessionContext;

use super::search::corpus::{json_lines, path};
use crate::support::sql::{error, rows, run, session};

async fn open(name: &str) -> SessionContext {
    let ctx = session();
    let path = path(&format!("{name}.tatami"));
    let sql = format!(
        "CREATE EXTERNAL TABLE t STORED AS TATAMI LOCATION '{}'",
        path.display()
    );
    rows(&ctx, &sql).await;
    ctx
}

/// Runs a search. Returns the row number of each hit, and its score as bits, to compare it exactly.
async fn hits(ctx: &SessionContext, sql: &str) -> Vec<(u64, u32)> {
    let batches = ctx.sql(sql).await.unwrap().collect().await.unwrap();
    let hits = batches.iter().flat_map(|batch| {
        let documents = batch
            .column_by_name("doc")
            .unwrap()
            .as_primitive::<UInt64Type>();
        let scores = batch
            .column_by_name("score")
            .unwrap()
            .as_primitive::<Float32Type>();
        let scores = scores.values().iter().map(|score| score.to_bits());
        documents.values().iter().copied().zip(scores)
    });
    hits.collect()
}

#[tokio::test]
async fn searches_have_the_hits_and_scores_of_the_reference() {
    for name in ["full", "deleted", "merged", "large_snippet", "one_doc"] {
        let ctx = open(name).await;
        let lines = json_lines(&format!("{name}.queries.jsonl"));
        for line in lines.iter().skip(1).step_by(3) {
            let (query, k) = (line[0].as_str().unwrap(), line[1].as_u64().unwrap());
            let expected: Vec<(u64, u32)> = line[2]
                .as_array()
                .unwrap()
                .iter()
                .map(|hit| {
                    let bits = u32::from_str_radix(hit[1].as_str().unwrap(), 16).unwrap();
                    (hit[0].as_u64().unwrap(), bits)
                })
                .collect();
            let query = query.replace('\'', "''");
            let sql = format!("SELECT doc, score FROM tatami_search('t', '{query}') LIMIT {k}");
            assert_eq!(hits(&ctx, &sql).await, expected, "{name}: {query:?}, {k}");
        }
    }
}

#[tokio::test]
async fn hits_have_the_columns_of_their_documents() {
    let ctx = open("full").await;
    // `doc` is the row number of the document in a scan.
    rows(
        &ctx,
        "CREATE TABLE numbered AS SELECT row_number() OVER () - 1 AS n, * FROM t",
    )
    .await;
    for query in ["com", "example org", "the rust"] {
        for filter in ["true", "norm_title > 2", "title LIKE '%a%'"] {
            let columns = "s.score, s.doc, s.doc_id, s.url, s.title, s.body";
            let found = rows(
                &ctx,
                &format!("SELECT {columns} FROM tatami_search('t', '{query}') s WHERE {filter}"),
            )
            .await;
            let expected = rows(
                &ctx,
                &format!(
                    "SELECT s.score, s.doc, n.doc_id, n.url, n.title, n.body FROM tatami_search('t', '{query}') s \
                     JOIN numbered n ON n.n = s.doc WHERE n.{} ORDER BY s.score DESC, s.doc",
                    filter.replace("true", "n >= 0")
                ),
            )
            .await;
            assert_eq!(found, expected, "{query}, {filter}");
        }
    }
}

#[tokio::test]
async fn limits_and_filters_are_part_of_the_search() {
    let ctx = open("full").await;
    let sql = "EXPLAIN SELECT title FROM tatami_search('t', 'com') WHERE norm_title > 2 LIMIT 10";
    let plan = rows(&ctx, sql).await.join("\n");
    assert!(plan.contains("search='com', mode=any"), "{plan}");
    assert!(
        plan.contains("norm_title") && plan.contains("k=10"),
        "{plan}"
    );
    assert!(!plan.contains("FilterExec"), "{plan}");
    let sql =
        "EXPLAIN SELECT title FROM tatami_search('t', 'com') ORDER BY score DESC, doc LIMIT 3";
    let plan = rows(&ctx, sql).await.join("\n");
    assert!(plan.contains("k=3") && !plan.contains("SortExec"), "{plan}");
}

#[tokio::test]
async fn hits_in_several_files_have_the_column_of_their_file() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    for (name, texts) in [("a", "('red apple'), ('green pear')"), ("b", "('red red')")] {
        let path = folder.path().join(format!("{name}.tatami"));
        let sql = format!(
            "COPY (SELECT column1 AS body FROM (VALUES {texts})) TO '{}' STORED AS TATAMI OPTIONS (search 'body')",
            path.display()
        );
        rows(&ctx, &sql).await;
    }
    for (table, option) in [("t", "OPTIONS (file_column 'true')"), ("plain", "")] {
        let sql = format!(
            "CREATE EXTERNAL TABLE {table} STORED AS TATAMI LOCATION '{}' {option}",
            folder.path().join("*.tatami").display()
        );
        rows(&ctx, &sql).await;
    }
    let columns = "SELECT right(file, 8), doc, body FROM tatami_search('t', 'red pear')";
    let sql = format!("{columns} ORDER BY file, doc");
    let expected = [
        "a.tatami 0 red apple",
        "a.tatami 1 green pear",
        "b.tatami 0 red red",
    ];
    assert_eq!(rows(&ctx, &sql).await, expected);
    let sql = format!("{columns} WHERE file LIKE '%b.tatami' LIMIT 1");
    assert_eq!(rows(&ctx, &sql).await, expected[2..]);
    let sql = "SELECT count(*) FROM t JOIN tatami_search('t', 'red') s USING (file, body)";
    assert_eq!(rows(&ctx, sql).await, ["2"]);
    let text = error(&ctx, "SELECT file FROM tatami_search('plain', 'red')").await;
    assert!(text.contains("file"), "{text}");
}

#[tokio::test]
async fn terms_are_listed_with_their_documents() {
    let ctx = open("full").await;
    let expected = json_lines("full.postings.jsonl");
    let found = rows(&ctx, "SELECT count(*) FROM tatami_terms('t')").await;
    assert_eq!(found, [expected.len().to_string()]);
    for line in expected.iter().step_by(17) {
        let (term, count) = (line["t"].as_str().unwrap(), &line["df"]);
        let term = term.replace('\'', "''");
        let sql = format!("SELECT documents FROM tatami_terms('t') WHERE term = '{term}'");
        assert_eq!(rows(&ctx, &sql).await, [count.to_string()], "{term}");
    }
}

#[tokio::test]
async fn matches_filters_documents_and_prunes_by_postings() {
    let ctx = open("snippet_groups").await;
    rows(&ctx, "CREATE TABLE copy AS SELECT * FROM t").await;
    for predicate in [
        "matches(title, 'a')",
        "matches(url, 'example')",
        "matches(title, 'rust arrays')",
        "matches(title, 'rust arrays', 'any')",
        "matches(snippet, 'com')",
        "matches(title, 'nosuchword')",
    ] {
        let of = |table: &str| format!("SELECT count(*) FROM {table} WHERE {predicate}");
        assert_eq!(
            rows(&ctx, &of("t")).await,
            rows(&ctx, &of("copy")).await,
            "{predicate}"
        );
    }
    let sql = "EXPLAIN SELECT title FROM t WHERE matches(title, 'nosuchword')";
    let plan = rows(&ctx, sql).await.join("\n");
    assert!(plan.contains("chunks=0 of"), "{plan}");
    assert!(plan.contains("pruned_by_search_index="), "{plan}");
}

#[tokio::test]
async fn matches_prunes_also_with_deleted_documents() {
    let ctx = open("deleted").await;
    rows(&ctx, "CREATE TABLE copy AS SELECT * FROM t").await;
    for predicate in ["matches(title, 'a')", "matches(url, 'example', 'any')"] {
        let of = |table: &str| format!("SELECT doc_id FROM {table} WHERE {predicate}");
        assert_eq!(
            rows(&ctx, &of("t")).await,
            rows(&ctx, &of("copy")).await,
            "{predicate}"
        );
    }
    let sql = "EXPLAIN SELECT title FROM t WHERE matches(title, 'nosuchword')";
    let plan = rows(&ctx, sql).await.join("\n");
    assert!(plan.contains("chunks=0 of"), "{plan}");
}

#[tokio::test]
async fn searches_read_only_the_documents_they_need() {
    let ctx = session();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pages.tatami");
    let sql = format!(
        "COPY (SELECT n AS id, CASE WHEN n % 3 = 0 THEN 'en' ELSE 'fr' END AS lang, 'a common word and ' || n AS body, \
         repeat(CAST(n * 7919 % 104729 AS VARCHAR), 40) AS rest FROM generate_series(1, 20000) AS s(n)) TO '{}' STORED AS TATAMI \
         OPTIONS (search 'body', page_rows '100', row_group_rows '10000')",
        path.display()
    );
    rows(&ctx, &sql).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE pages STORED AS TATAMI LOCATION '{}'",
        path.display()
    );
    rows(&ctx, &sql).await;
    let search = async |rest: &str| {
        let sql = format!("SELECT id, rest FROM tatami_search('pages', 'common') {rest}");
        let found = run(&ctx, &sql).await;
        let metrics = ["hits", "bytes_read"].map(|name| found.metric(name));
        (found.rows, metrics)
    };
    let (all, [hits, bytes]) = search("").await;
    assert_eq!((all.len(), hits), (20_000, 20_000));
    let (found, [few_hits, few_bytes]) = search("WHERE lang = 'en' LIMIT 10").await;
    assert_eq!(found.len(), 10);
    assert!(few_hits <= 64, "{few_hits}");
    assert!(few_bytes * 20 < bytes, "{few_bytes} of {bytes}");
}

#[tokio::test]
async fn wrong_searches_are_refused() {
    let ctx = open("full").await;
    for (sql, expected) in [
        (
            "SELECT * FROM tatami_search('t', 'a', 'phrase')",
            "positions|not where",
        ),
        (
            "SELECT * FROM tatami_search('t', 'a', 'some')",
            "expected any or all",
        ),
        (
            "SELECT * FROM tatami_search('t')",
            "takes the name of a table",
        ),
        ("SELECT * FROM tatami_search('nosuch', 'a')", "not found"),
        (
            "SELECT * FROM tatami_terms('t', 'a')",
            "takes the name of a table",
        ),
    ] {
        let text = error(&ctx, sql).await;
        assert!(
            expected.split('|').any(|part| text.contains(part)),
            "{sql}: {text}"
        );
    }
}

#[tokio::test]
async fn arguments_may_be_given_by_name() {
    let ctx = open("full").await;
    let count = async |sql: &str| {
        let plan = tet_sql::create_logical_plan(&ctx.state(), sql).await;
        let frame = ctx.execute_logical_plan(plan.unwrap()).await.unwrap();
        frame.count().await.unwrap()
    };
    let search = "SELECT doc FROM tatami_search";
    let all = count(&format!("{search}('t', 'the com', 'all')")).await;
    assert!(all < count(&format!("{search}('t', 'the com')")).await);
    let named = [
        format!("{search}('t', 'the com', mode => 'all')"),
        format!("{search}('t', mode => 'all', words => 'the com')"),
    ];
    for sql in named {
        assert_eq!(count(&sql).await, all, "{sql}");
    }
    let matching = "SELECT doc_id FROM t WHERE matches";
    let any = count(&format!("{matching}(url, 'com org', 'any')")).await;
    assert!(any > count(&format!("{matching}(url, 'com org')")).await);
    let named = format!("{matching}(url, 'com org', mode => 'any')");
    assert_eq!(count(&named).await, any);
}
