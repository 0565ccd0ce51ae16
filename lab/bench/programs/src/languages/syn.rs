//! Parses Rust and counts what it finds (crates `proc-macro2` and `syn`).

use syn::{Expr, File, Item, Stmt};

use crate::text;
use crate::{Job, Scale, checksum};

const FUNCTIONS: usize = 700;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = code(scale.of(FUNCTIONS));
    Box::new(move || {
        let (functions, statements, operators) = counted(&text);
        checksum([functions, statements, operators])
    })
}

/// How many functions there are, statements in them, and operators in those.
fn counted(text: &str) -> (u64, u64, u64) {
    let File { items, .. } = syn::parse_file(text).expect("the code is well-formed");
    let (mut functions, mut statements, mut operators) = (0, 0, 0);
    for item in items {
        let Item::Fn(function) = item else { continue };
        functions += 1;
        for statement in &function.block.stmts {
            statements += 1;
            operators += match statement {
                Stmt::Expr(expression, _) => operators_of(expression),
                Stmt::Local(local) => local.init.as_ref().map_or(0, |init| operators_of(&init.expr)),
                _ => 0,
            };
        }
    }
    (functions, statements, operators)
}

fn operators_of(expression: &Expr) -> u64 {
    match expression {
        Expr::Binary(binary) => 1 + operators_of(&binary.left) + operators_of(&binary.right),
        Expr::Paren(inner) => operators_of(&inner.expr),
        Expr::Call(call) => call.args.iter().map(operators_of).sum(),
        Expr::MethodCall(call) => operators_of(&call.receiver) + call.args.iter().map(operators_of).sum::<u64>(),
        _ => 0,
    }
}

fn code(functions: usize) -> String {
    let mut random = fastrand::Rng::with_seed(48);
    let words = text::words(49, 20 * functions);
    let mut words = words.split(|character: char| !character.is_alphabetic()).filter(|word| !word.is_empty()).cycle();
    let mut name = || format!("n_{}", words.next().unwrap_or_default());
    let mut code = String::new();
    for at in 0..functions {
        let (one, two, kind) = (name(), name(), name());
        code.push_str(&format!(
            "/// What {one} is.\n#[derive(Clone, Debug)]\npub struct T{at}<'a, K: Ord> {{ pub {one}: &'a [K], {kind}: Option<u{}> }}\n\n\
             pub fn f{at}<T>({one}: &T, {two}: &mut Vec<u8>) -> Result<(), Box<dyn Error>> where T: Into<u64> {{\n",
            8 << random.u32(0..4)
        ));
        for _ in 0..random.usize(2..9) {
            let number = random.u32(..);
            code.push_str(&match random.u32(0..4) {
                0 => format!("    let {} = {one} + ({two}.len() << 3) * {number};\n", name()),
                1 => format!("    {two}.push({one}.map(|x| x.y & {number}).unwrap_or_default() - 1);\n"),
                2 => format!("    if {one} == Some({number}) {{ return Err(\"{}\".into()); }}\n", name()),
                _ => {
                    format!("    match {two} {{ [a, .., b] if a < b => {{}} _ => f{at}({number} / 3, &mut [1, 2]) }}\n")
                }
            });
        }
        code.push_str("    Ok(())\n}\n\n");
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_statements_and_operators_are_counted() {
        let text = "fn f() { let a = 1 + 2 * (3 - 4); g(a << 1); } struct S; fn h() { 1 }";
        assert_eq!(counted(text), (2, 3, 4));
        assert_eq!(counted(&code(30)).0, 30);
    }
}
