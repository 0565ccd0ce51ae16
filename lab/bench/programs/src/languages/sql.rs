//! Parses queries and writes them again (crate `sqlparser`).

use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::text;
use crate::{Job, Scale, checksum};

const QUERIES: usize = 1500;

pub(crate) fn prepare(scale: Scale) -> Job {
    let queries = queries(scale.of(QUERIES));
    Box::new(move || checksum(queries.iter().map(|query| written(query).bytes().map(u64::from).sum())))
}

/// The query as the parser has understood it.
fn written(query: &str) -> String {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, query).expect("the queries are well-formed");
    parsed.iter().map(ToString::to_string).collect()
}

fn queries(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(46);
    let words = text::words(47, 20 * count);
    let mut words = words.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()).cycle();
    let mut name = || format!("n_{}", words.next().unwrap_or_default());
    let query = |_| match random.u32(0..3) {
        0 => format!(
            "SELECT a.{}, count(*) AS n, sum(b.{} * 2.5 + 1) FROM {} AS a LEFT JOIN {} AS b ON a.id = b.{} AND b.x > {} \
             WHERE a.{} IN (1, 2, 3, {}) OR (a.y BETWEEN 5 AND 9 AND NOT b.z LIKE '%{}%') \
             GROUP BY a.{} HAVING count(*) > 3 ORDER BY n DESC LIMIT {}",
            name(),
            name(),
            name(),
            name(),
            name(),
            random.u32(..),
            name(),
            random.u32(..),
            name(),
            name(),
            random.u32(1..100)
        ),
        1 => format!(
            "INSERT INTO {} ({}, {}, {}) VALUES ({}, '{}', NULL), (-{}, 'it''s', CASE WHEN 1 < 2 THEN 3 ELSE 4 END)",
            name(),
            name(),
            name(),
            name(),
            random.u32(..),
            name(),
            random.u32(..)
        ),
        _ => format!(
            "WITH t AS (SELECT * FROM {} WHERE {} = {}) UPDATE {} SET {} = upper({}), v = (SELECT max({}) FROM t) \
             WHERE EXISTS (SELECT 1 FROM t WHERE t.id = {})",
            name(),
            name(),
            random.u32(..),
            name(),
            name(),
            name(),
            name(),
            random.u32(..)
        ),
    };
    (0..count).map(query).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_come_back_as_they_were() {
        for query in queries(60) {
            assert_eq!(written(&query), query);
        }
    }
}
