//! Figures without the command: `cargo run -p greenwave-reproduce --example figures -- NAME [--quick] [--seed NUMBER]`, as a
//! page; on standard error how long it took.

use greenwave_reproduce::{Effort, Entry, page};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or_else(|| "all".to_owned());
    let quick = std::env::args().any(|word| word == "--quick");
    let threads = std::thread::available_parallelism()?.get();
    let seed = std::env::args().skip_while(|word| word != "--seed").nth(1).map_or(Ok(1), |word| word.parse())?;
    let effort = Effort { quick, threads, seed };
    let started = std::time::Instant::now();
    let mut figures = Vec::new();
    for entry in Entry::named(&name) {
        figures.push((entry, entry.run(&effort)?));
    }
    println!("{}", page::markdown(&figures, &effort, &name));
    eprintln!("{}", page::took(figures.len(), &effort, started.elapsed()));
    Ok(())
}
