//! Reads a table from text, field by field, and writes the rows that are wanted (crate `csv`).

use csv::{ByteRecord, ReaderBuilder, WriterBuilder};

use crate::text;
use crate::{Job, Scale, checksum};

const ROWS: usize = 180_000;

pub(crate) fn prepare(scale: Scale) -> Job {
    let text = table(scale.of(ROWS));
    Box::new(move || {
        let (sum, written) = selected(&text);
        checksum([sum].into_iter().chain(written.into_iter().step_by(16).map(u64::from)))
    })
}

/// The sum of the last column, and the rows in which it is even.
fn selected(text: &str) -> (u64, Vec<u8>) {
    let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    let (mut record, mut sum) = (ByteRecord::new(), 0);
    while reader.read_byte_record(&mut record).expect("the table is well-formed") {
        let last = record.iter().next_back().and_then(|field| std::str::from_utf8(field).ok()?.parse().ok());
        let last: u64 = last.expect("the last column has numbers");
        sum += last;
        if last.is_multiple_of(2) {
            writer.write_byte_record(&record).expect("memory is written to");
        }
    }
    (sum, writer.into_inner().expect("memory is written to"))
}

fn table(rows: usize) -> String {
    let mut random = fastrand::Rng::with_seed(41);
    let words = text::words(42, rows);
    let mut words = words.split_whitespace().cycle();
    let mut text = "name,remark,amount,count\n".to_owned();
    for _ in 0..rows {
        let (name, one, two) = (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
        text.push_str(&format!("\"{name}\",\"{one} \"\"{two}\"\"\",{:.2},{}\n", random.f64(), random.u32(0..1000)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_that_are_wanted_come_back() {
        let (sum, written) = selected("a,b\n\"x \"\"y\"\"\",4\nz,5\n");
        assert_eq!((sum, written.as_slice()), (9, b"\"x \"\"y\"\"\",4\n".as_slice()));
    }
}
