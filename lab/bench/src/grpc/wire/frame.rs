//! Frames of HTTP/2 (RFC 9113), as far as who speaks it by hand needs them: to load servers, or to attack them.

/// The bytes that a client begins with.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's head.
pub const HEAD: usize = 9;

/// What a window is at first, of a stream and of the connection.
pub const FIRST_WINDOW: u32 = 65_535;
/// The widest that a window may be.
pub const WIDEST: u32 = (1 << 31) - 1;

/// Kinds of frames.
#[allow(missing_docs, reason = "they are called as the standard has them")]
pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
}

/// Flags of frames.
#[allow(missing_docs, reason = "they are called as the standard has them")]
pub mod flag {
    pub const ACK: u8 = 1;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
    pub const PADDED: u8 = 8;
    pub const PRIORITY: u8 = 0x20;
}

/// Numbers of settings.
#[allow(missing_docs, reason = "they are called as the standard has them")]
pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// What comes before a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the payload.
    pub length: usize,
    /// Of which [`kind`] it is.
    pub kind: u8,
    /// Its [`flag`]s.
    pub flags: u8,
    /// Whose it is; the connection's if it is 0.
    pub stream: u32,
}

impl Head {
    /// Reads one.
    pub fn parse(bytes: &[u8; HEAD]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { length, kind, flags, stream: u32::from_be_bytes(stream) & WIDEST }
    }

    /// Writes it over the first bytes of what is there.
    pub fn put(self, into: &mut [u8]) {
        into[..3].copy_from_slice(&(self.length as u32).to_be_bytes()[1..]);
        (into[3], into[4]) = (self.kind, self.flags);
        into[5..HEAD].copy_from_slice(&self.stream.to_be_bytes());
    }
}

/// Adds a head.
pub fn head(length: usize, kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) {
    let at = out.len();
    out.extend([0; HEAD]);
    Head { length, kind, flags, stream }.put(&mut out[at..]);
}

/// Adds a frame of settings.
pub fn settings(settings: &[(u16, u32)], out: &mut Vec<u8>) {
    head(settings.len() * 6, kind::SETTINGS, 0, 0, out);
    for (id, value) in settings {
        out.extend(id.to_be_bytes());
        out.extend(value.to_be_bytes());
    }
}

/// The settings in a payload.
pub fn parse_settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.chunks_exact(6).map(|pair| {
        let id = u16::from_be_bytes([pair[0], pair[1]]);
        (id, u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]))
    })
}

/// Adds a frame that raises a window.
pub fn window_update(stream: u32, by: u32, out: &mut Vec<u8>) {
    head(4, kind::WINDOW_UPDATE, 0, stream, out);
    out.extend(by.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        let said = [(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, WIDEST)];
        settings(&said, &mut bytes);
        window_update(7, 1 << 20, &mut bytes);
        let (first, rest) = bytes.split_first_chunk().unwrap();
        assert_eq!(Head::parse(first), Head { length: 12, kind: kind::SETTINGS, flags: 0, stream: 0 });
        assert_eq!(parse_settings(&rest[..12]).collect::<Vec<_>>(), said);
        let second = Head::parse(rest[12..].first_chunk().unwrap());
        assert_eq!(second, Head { length: 4, kind: kind::WINDOW_UPDATE, flags: 0, stream: 7 });
    }
}
