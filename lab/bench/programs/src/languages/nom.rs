//! Parses expressions and computes them, by a parser that is put together from small ones (crate `nom`).

use nom::branch::alt;
use nom::bytes::complete::tag;
use nom::character::complete::{alpha1, char, digit1, multispace0};
use nom::combinator::{map, map_res, value};
use nom::multi::{fold_many0, separated_list1};
use nom::sequence::{delimited, pair, preceded};
use nom::{IResult, Parser};

use crate::{Job, Scale, checksum};

const LINES: usize = 22_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = lines(scale.of(LINES));
    Box::new(move || {
        checksum(text.lines().map(|line| {
            let (rest, value) = sum(line).expect("the lines are well-formed");
            value as u64 ^ rest.len() as u64
        }))
    })
}

#[derive(Clone, Copy)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operator {
    fn apply(self, left: i64, right: i64) -> i64 {
        match self {
            Self::Add => left.wrapping_add(right),
            Self::Subtract => left.wrapping_sub(right),
            Self::Multiply => left.wrapping_mul(right),
            Self::Divide => left.checked_div(right).unwrap_or(left),
        }
    }
}

fn sum(text: &str) -> IResult<&str, i64> {
    let operator = alt((value(Operator::Add, char('+')), value(Operator::Subtract, char('-'))));
    let (text, first) = product(text)?;
    fold_many0(pair(spaced(operator), product), move || first, |left, (by, right)| by.apply(left, right)).parse(text)
}

fn product(text: &str) -> IResult<&str, i64> {
    let operator = alt((value(Operator::Multiply, char('*')), value(Operator::Divide, char('/'))));
    let (text, first) = atom(text)?;
    fold_many0(pair(spaced(operator), atom), move || first, |left, (by, right)| by.apply(left, right)).parse(text)
}

fn atom(text: &str) -> IResult<&str, i64> {
    let number = map_res(digit1, str::parse::<i64>);
    let negative = map(preceded(char('-'), atom), i64::wrapping_neg);
    let list = delimited(char('('), separated_list1(spaced(tag(",")), sum), preceded(multispace0, char(')')));
    let call = map(pair(alpha1, list), |(name, values): (&str, Vec<i64>)| match name {
        "max" => values.into_iter().max().unwrap_or(0),
        "min" => values.into_iter().min().unwrap_or(0),
        _ => values.into_iter().fold(0, i64::wrapping_add),
    });
    let nested = delimited(char('('), sum, preceded(multispace0, char(')')));
    preceded(multispace0, alt((number, nested, call, negative))).parse(text)
}

fn spaced<'a, O, P: Parser<&'a str, Output = O, Error = nom::error::Error<&'a str>>>(
    parser: P,
) -> impl Parser<&'a str, Output = O, Error = nom::error::Error<&'a str>> {
    preceded(multispace0, parser)
}

fn lines(count: usize) -> String {
    let mut random = fastrand::Rng::with_seed(45);
    let mut text = String::new();
    for _ in 0..count {
        expression(&mut random, 4, &mut text);
        text.push('\n');
    }
    text
}

fn expression(random: &mut fastrand::Rng, depth: u32, text: &mut String) {
    for at in 0..random.usize(1..4) {
        if at > 0 {
            text.push_str([" + ", " - ", "*", " / "][random.usize(0..4)]);
        }
        match if depth == 0 { 0 } else { random.u32(0..4) } {
            0 | 1 => text.push_str(&random.u32(0..100_000).to_string()),
            2 => {
                text.push('(');
                expression(random, depth - 1, text);
                text.push(')');
            }
            _ => {
                text.push_str(["max(", "min(", "add("][random.usize(0..3)]);
                expression(random, depth - 1, text);
                text.push_str(", ");
                expression(random, depth - 1, text);
                text.push(')');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_computed_as_one_reads_them() {
        for (text, expected) in [("1 + 2*3 - 4", 3), ("-(2 + 3)*max(1, 7 / 2, 2)", -15), ("add(1,2,min(9, 8))", 11)] {
            assert_eq!(sum(text), Ok(("", expected)), "{text}");
        }
        assert!(lines(50).lines().all(|line| sum(line).is_ok_and(|(rest, _)| rest.is_empty())));
    }
}
