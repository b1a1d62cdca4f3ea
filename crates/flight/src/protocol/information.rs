//! Describes the server and its SQL types to clients.

use crate::options::Options;
use crate::status::of_flight;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    Nullable, Searchable, SqlInfo, SqlNullOrdering, SqlSupportedCaseSensitivity,
    SqlSupportedTransaction, XdbcDataType,
};
use tonic::Status;

/// The version of Arrow's columnar format and messages.
const ARROW_FORMAT: &str = "1.5";

/// Returns the name, version and abilities of the server.
pub fn about(options: &Options) -> Result<SqlInfoData, Status> {
    let mut builder = SqlInfoDataBuilder::new();
    builder.append(SqlInfo::FlightSqlServerName, options.name.as_str());
    builder.append(SqlInfo::FlightSqlServerVersion, options.version.as_str());
    builder.append(SqlInfo::FlightSqlServerArrowVersion, ARROW_FORMAT);
    builder.append(
        SqlInfo::FlightSqlServerTransaction,
        SqlSupportedTransaction::None as i32,
    );
    let milliseconds = i32::try_from(options.time_limit.as_millis()).unwrap_or(i32::MAX);
    builder.append(SqlInfo::FlightSqlServerStatementTimeout, milliseconds);
    builder.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    // Unquoted identifiers are folded to lower case; quoted identifiers keep their case.
    builder.append(
        SqlInfo::SqlIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32,
    );
    builder.append(
        SqlInfo::SqlQuotedIdentifierCase,
        SqlSupportedCaseSensitivity::SqlCaseSensitivityCaseInsensitive as i32,
    );
    builder.append(
        SqlInfo::SqlNullOrdering,
        SqlNullOrdering::SqlNullsSortedHigh as i32,
    );
    for (name, text) in [
        (SqlInfo::SqlIdentifierQuoteChar, "\""),
        (SqlInfo::SqlSearchStringEscape, "\\"),
        (SqlInfo::SqlExtraNameCharacters, ""),
        (SqlInfo::SqlSchemaTerm, "schema"),
        (SqlInfo::SqlCatalogTerm, "catalog"),
        (SqlInfo::SqlProcedureTerm, "procedure"),
    ] {
        builder.append(name, text);
    }
    for (name, is_so) in [
        (SqlInfo::FlightSqlServerReadOnly, true),
        (SqlInfo::FlightSqlServerSql, true),
        (SqlInfo::FlightSqlServerSubstrait, false),
        (SqlInfo::FlightSqlServerCancel, true),
        (SqlInfo::FlightSqlServerBulkIngestion, false),
        (SqlInfo::FlightSqlServerIngestTransactionsSupported, false),
        (SqlInfo::SqlDdlCatalog, false),
        (SqlInfo::SqlDdlSchema, false),
        (SqlInfo::SqlDdlTable, false),
        (SqlInfo::SqlAllTablesAreSelectable, true),
        (SqlInfo::SqlSupportsColumnAliasing, true),
        (SqlInfo::SqlNullPlusNullIsNull, true),
        (SqlInfo::SqlSupportsTableCorrelationNames, true),
        (SqlInfo::SqlSupportsDifferentTableCorrelationNames, false),
        (SqlInfo::SqlSupportsExpressionsInOrderBy, true),
        (SqlInfo::SqlSupportsOrderByUnrelated, true),
        (SqlInfo::SqlSupportsLikeEscapeClause, true),
        (SqlInfo::SqlSupportsNonNullableColumns, true),
        (SqlInfo::SqlSupportsIntegrityEnhancementFacility, false),
        (SqlInfo::SqlCatalogAtStart, true),
        (SqlInfo::SqlSelectForUpdateSupported, false),
        (SqlInfo::SqlStoredProceduresSupported, false),
        (SqlInfo::SqlCorrelatedSubqueriesSupported, true),
        (SqlInfo::SqlTransactionsSupported, false),
        (SqlInfo::SqlDataDefinitionCausesTransactionCommit, false),
        (SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false),
        (SqlInfo::SqlBatchUpdatesSupported, false),
        (SqlInfo::SqlSavepointsSupported, false),
        (SqlInfo::SqlNamedParametersSupported, false),
        (SqlInfo::SqlLocatorsUpdateCopy, false),
        (SqlInfo::SqlStoredFunctionsUsingCallSyntaxSupported, false),
    ] {
        builder.append(name, is_so);
    }
    builder.build().map_err(of_flight)
}

/// Returns the types of columns.
pub fn types() -> Result<XdbcTypeInfoData, Status> {
    use XdbcDataType as Type;
    let mut builder = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, bits) in [
        ("TINYINT", Type::XdbcTinyint, 8),
        ("SMALLINT", Type::XdbcSmallint, 16),
        ("INTEGER", Type::XdbcInteger, 32),
        ("BIGINT", Type::XdbcBigint, 64),
        ("REAL", Type::XdbcReal, 24),
        ("DOUBLE", Type::XdbcDouble, 53),
    ] {
        builder.append(number(name, data_type, bits, 2, false));
    }
    for (name, data_type, bits) in [
        ("TINYINT UNSIGNED", Type::XdbcTinyint, 8),
        ("SMALLINT UNSIGNED", Type::XdbcSmallint, 16),
        ("INTEGER UNSIGNED", Type::XdbcInteger, 32),
        ("BIGINT UNSIGNED", Type::XdbcBigint, 64),
    ] {
        builder.append(number(name, data_type, bits, 2, true));
    }
    builder.append(XdbcTypeInfo {
        create_params: Some(vec!["precision".to_owned(), "scale".to_owned()]),
        minimum_scale: Some(0),
        maximum_scale: Some(38),
        ..number("DECIMAL", Type::XdbcDecimal, 38, 10, false)
    });
    for (name, data_type, size, prefix) in [
        ("BOOLEAN", Type::XdbcBit, 1, None),
        ("DATE", Type::XdbcDate, 10, Some("DATE '")),
        ("TIME", Type::XdbcTime, 18, Some("TIME '")),
        ("TIMESTAMP", Type::XdbcTimestamp, 29, Some("TIMESTAMP '")),
        ("INTERVAL", Type::XdbcInterval, 64, Some("INTERVAL '")),
        ("VARCHAR", Type::XdbcVarchar, i32::MAX, Some("'")),
        ("VARBINARY", Type::XdbcVarbinary, i32::MAX, Some("X'")),
    ] {
        builder.append(XdbcTypeInfo {
            case_sensitive: data_type == Type::XdbcVarchar,
            literal_prefix: prefix.map(str::to_owned),
            literal_suffix: prefix.map(|_| "'".to_owned()),
            ..plain(name, data_type, size)
        });
    }
    builder.build().map_err(of_flight)
}

fn plain(name: &str, data_type: XdbcDataType, size: i32) -> XdbcTypeInfo {
    XdbcTypeInfo {
        type_name: name.to_owned(),
        local_type_name: Some(name.to_owned()),
        data_type,
        sql_data_type: data_type,
        column_size: Some(size),
        nullable: Nullable::NullabilityNullable,
        searchable: Searchable::Full,
        ..XdbcTypeInfo::default()
    }
}

fn number(
    name: &str,
    data_type: XdbcDataType,
    digits: i32,
    radix: i32,
    unsigned: bool,
) -> XdbcTypeInfo {
    XdbcTypeInfo {
        unsigned_attribute: Some(unsigned),
        auto_increment: Some(false),
        num_prec_radix: Some(radix),
        ..plain(name, data_type, digits)
    }
}
