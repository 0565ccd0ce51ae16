//! Counts primes in a small language of its own: a loop with a way for each instruction.

use crate::{Job, Scale};

const BELOW: usize = 150_000;
const REGISTERS: usize = 8;

/// Registers are named by their number, instructions by theirs.
#[derive(Clone, Copy, Debug)]
enum Instruction {
    Set(u8, i64),
    Copy(u8, u8),
    Add(u8, u8),
    AddConstant(u8, i64),
    Multiply(u8, u8),
    /// What is left when the first is divided by the second.
    Remainder(u8, u8),
    JumpIfZero(u8, u32),
    /// If the first is less than the second.
    JumpIfLess(u8, u8, u32),
    Jump(u32),
    /// The result is in this register.
    End(u8),
}

pub(crate) fn prepare(scale: Scale) -> Job {
    // Trial division up to the root takes n^1.5 / log n.
    let below = (BELOW as f64 * scale.share().powf(2.0 / 3.0)) as i64;
    let code = primes_below(below.max(10));
    Box::new(move || run(&code) as u64)
}

/// Within one line of the cache, wherever the stack happens to lie.
#[repr(align(64))]
struct Registers([i64; REGISTERS]);

fn run(code: &[Instruction]) -> i64 {
    let mut registers = Registers([0; REGISTERS]);
    let registers = &mut registers.0;
    let mut next = 0;
    loop {
        let instruction = code[next];
        next += 1;
        match instruction {
            Instruction::Set(to, value) => registers[usize::from(to)] = value,
            Instruction::Copy(to, from) => registers[usize::from(to)] = registers[usize::from(from)],
            Instruction::Add(to, from) => registers[usize::from(to)] += registers[usize::from(from)],
            Instruction::AddConstant(to, value) => registers[usize::from(to)] += value,
            Instruction::Multiply(to, from) => registers[usize::from(to)] *= registers[usize::from(from)],
            Instruction::Remainder(to, from) => registers[usize::from(to)] %= registers[usize::from(from)],
            Instruction::JumpIfZero(of, to) => {
                if registers[usize::from(of)] == 0 {
                    next = to as usize;
                }
            }
            Instruction::JumpIfLess(a, b, to) => {
                if registers[usize::from(a)] < registers[usize::from(b)] {
                    next = to as usize;
                }
            }
            Instruction::Jump(to) => next = to as usize,
            Instruction::End(of) => return registers[usize::from(of)],
        }
    }
}

/// A program that counts the primes below a number by dividing.
fn primes_below(below: i64) -> Vec<Instruction> {
    use Instruction::{Add, AddConstant, Copy, End, Jump, JumpIfLess, JumpIfZero, Multiply, Remainder, Set};
    const LIMIT: u8 = 0;
    const COUNT: u8 = 1;
    const NUMBER: u8 = 2;
    const DIVISOR: u8 = 3;
    const REST: u8 = 4;
    const SQUARE: u8 = 5;
    const ONE: u8 = 6;
    vec![
        Set(LIMIT, below),
        Set(NUMBER, 2),
        Set(ONE, 1),
        // 3: the next number
        JumpIfLess(NUMBER, LIMIT, 5),
        End(COUNT),
        Set(DIVISOR, 2),
        // 6: the next divisor
        Copy(SQUARE, DIVISOR),
        Multiply(SQUARE, DIVISOR),
        JumpIfLess(NUMBER, SQUARE, 13),
        Copy(REST, NUMBER),
        Remainder(REST, DIVISOR),
        JumpIfZero(REST, 14),
        Jump(16),
        // 13: a prime
        Add(COUNT, ONE),
        // 14: whatever it was
        AddConstant(NUMBER, 1),
        Jump(3),
        // 16
        AddConstant(DIVISOR, 1),
        Jump(6),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_primes_as_are_known() {
        for (below, count) in [(2, 0), (3, 1), (10, 4), (100, 25), (1000, 168), (10_000, 1229)] {
            assert_eq!(run(&primes_below(below)), count, "below {below}");
        }
    }
}
