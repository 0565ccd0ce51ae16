//! zstd, by the library of its own project.
//!
//! That is no Rust, so whoever runs within it is not preempted: it is given a piece at a time.

use super::{Encoding, Take, Undecodable};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer};
use zstd_safe::{get_error_name, get_frame_content_size};

/// What a frame begins with (RFC 8878, 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes that are read or written at a time.
const PIECE: usize = 64 << 10;

/// The binary logarithm of the longest window: what every reader is to have room for (RFC 8878, 3.1.1.1.2).
const WINDOW_MOST: u32 = 23;

/// How many bytes one can stand for, at the most: a block of 128 KiB, all the same, in four.
const RATIO_MOST: usize = 32 << 10;

/// As with gzip.
const LEVEL: i32 = 1;

pub(super) fn compress(message: &[u8]) -> Option<Vec<u8>> {
    let mut context = CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
    context.set_pledged_src_size(Some(message.len() as u64)).ok()?;
    let (mut compressed, mut len) = (vec![0; message.len() / 4 + 64], 0);
    let mut begun = 0;
    loop {
        let end = message.len().min(begun + PIECE);
        let how = if end == message.len() { ZSTD_EndDirective::ZSTD_e_end } else { ZSTD_EndDirective::ZSTD_e_continue };
        let mut input = InBuffer::around(&message[begun..end]);
        let mut output = OutBuffer::around(&mut compressed[len..]);
        let left = context.compress_stream2(&mut output, &mut input, how).ok()?;
        len += output.pos();
        begun += input.pos;
        if begun == message.len() && how == ZSTD_EndDirective::ZSTD_e_end && left == 0 {
            compressed.truncate(len);
            return Some(compressed);
        }
        if len == compressed.len() {
            if len > message.len() {
                return None;
            }
            compressed.resize(2 * len, 0);
        }
    }
}

/// Bytes that are held to read a frame beside its message and its window: tables, and two blocks.
const STATE: usize = 160 << 10;
const BLOCK: usize = 128 << 10;

/// Bytes of a frame's window, by its header (RFC 8878, 3.1.1.1). Of one that is cut short or too long it doesn't matter: it is
/// not read.
fn window(compressed: &[u8], said: Option<u64>) -> usize {
    let most = 1 << WINDOW_MOST;
    let said = said.map_or(most, |said| most.min(said.try_into().unwrap_or(most)));
    match compressed.get(MAGIC.len()..) {
        // A single segment: its window is as long as its message.
        Some([descriptor, ..]) if descriptor & 1 << 5 != 0 => said,
        Some([_, window, ..]) => {
            let base = 1_usize.checked_shl(10 + u32::from(window >> 3)).unwrap_or(most);
            said.min(base.saturating_add(base / 8 * usize::from(window & 7)))
        }
        _ => 0,
    }
}

pub(super) fn decompress(compressed: &[u8], most: usize, take: &mut Take<'_>) -> Result<Vec<u8>, Undecodable> {
    let corrupt = |why: &str| Encoding::Zstd.corrupt(why);
    // Neither a frame of an older format, which a library may still read, nor one to be skipped.
    if !compressed.starts_with(&MAGIC) {
        return Err(corrupt("it doesn't begin as it has to"));
    }
    let said = get_frame_content_size(compressed).map_err(|_| corrupt("it doesn't begin as it has to"))?;
    if said.is_some_and(|said| said > most as u64) {
        return Err(Undecodable::TooLong(most));
    }
    // Without a word of its length, what comes makes room for more of the same.
    let likely = said.map_or(compressed.len().saturating_mul(4), |said| said as usize);
    let likely = likely.min(compressed.len().saturating_mul(RATIO_MOST)).min(most);
    let window = window(compressed, said);
    let state = STATE + window + 2 * window.min(BLOCK);
    take(likely + state)?;
    let mut context = DCtx::try_create().ok_or_else(|| corrupt("there is no memory to read it with"))?;
    context.set_parameter(DParameter::WindowLogMax(WINDOW_MOST)).map_err(|code| corrupt(get_error_name(code)))?;
    let (mut message, mut len) = (vec![0; likely], 0);
    let mut begun = 0;
    loop {
        if len == message.len() {
            // One byte more than there may be, to see whether there is more.
            let longer = (2 * len).max(PIECE).min(most + 1);
            // While it is moved it is there twice.
            take(len + longer + state)?;
            message.reserve_exact(longer - len);
            message.resize(longer, 0);
        }
        let end = message.len().min(len + PIECE);
        let mut output = OutBuffer::around(&mut message[len..end]);
        // Blocks may come to nothing, so what is read at a time is bounded as well.
        let mut input = InBuffer::around(&compressed[begun..compressed.len().min(begun + PIECE)]);
        let left = context.decompress_stream(&mut output, &mut input).map_err(|code| corrupt(get_error_name(code)))?;
        begun += input.pos;
        let (came, is_full) = (output.pos(), output.pos() == end - len);
        len += came;
        if len > most {
            return Err(Undecodable::TooLong(most));
        }
        if left == 0 {
            break;
        }
        if begun == compressed.len() && !is_full {
            return Err(corrupt("it is cut short"));
        }
    }
    if begun < compressed.len() {
        return Err(corrupt("there is something behind its end"));
    }
    drop(context);
    message.truncate(len);
    message.shrink_to_fit();
    take(len)?;
    Ok(message)
}
