//! What a side of a connection takes from the other.

/// The least window and the least size of a frame that a peer may count on before it knows the settings (RFC 9113, 6.5.2).
pub(crate) const WINDOW_LEAST: u32 = 65_535;
pub(crate) const FRAME_LEAST: u32 = 16_384;
/// The largest of both.
pub(crate) const WINDOW_MOST: u32 = (1 << 31) - 1;
pub(crate) const FRAME_MOST: u32 = (1 << 24) - 1;
/// The size of a table of header compression before anything is set.
pub(crate) const TABLE_DEFAULT: u32 = 4096;

/// What one side of a connection accepts from the other. Each setting is a bound on what the peer can make it hold or do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub(crate) streams: u32,
    pub(crate) window: u32,
    pub(crate) connection_window: u32,
    pub(crate) frame_bytes: u32,
    pub(crate) header_list_bytes: u32,
    pub(crate) header_block_bytes: u32,
    pub(crate) continuations: u32,
    pub(crate) decoder_table: u32,
    pub(crate) encoder_table: u32,
    pub(crate) resets: u32,
    pub(crate) idle_frames: u32,
    pub(crate) output_bytes: usize,
    pub(crate) small_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self::new()
    }
}

impl Settings {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            streams: 256,
            window: 1 << 20,
            connection_window: 2 << 20,
            frame_bytes: FRAME_LEAST,
            header_list_bytes: 16 << 10,
            header_block_bytes: 32 << 10,
            continuations: 8,
            decoder_table: TABLE_DEFAULT,
            encoder_table: TABLE_DEFAULT,
            resets: 1000,
            idle_frames: 10_000,
            output_bytes: 64 << 10,
            small_bytes: 8 << 10,
        }
    }

    /// How many streams may be open at once, 1 to 65535, by default 256. A server refuses further ones with REFUSED_STREAM; a
    /// client opens no more, nor more than the server takes.
    #[must_use]
    pub const fn streams(mut self, streams: u32) -> Self {
        self.streams = clamp(streams, 1, 65_535);
        self
    }

    /// What may arrive of a stream before it is [consumed](crate::Connection::consumed), in bytes: 65535 to 2^31 - 1, by
    /// default 1 MiB. What is out of that range becomes the end of it.
    #[must_use]
    pub const fn window(mut self, bytes: u32) -> Self {
        self.window = clamp(bytes, WINDOW_LEAST, WINDOW_MOST);
        self
    }

    /// What may arrive of all streams before it is [released](crate::Connection::release), in bytes: as of
    /// [`window`](Self::window), by default 2 MiB.
    #[must_use]
    pub const fn connection_window(mut self, bytes: u32) -> Self {
        self.connection_window = clamp(bytes, WINDOW_LEAST, WINDOW_MOST);
        self
    }

    /// The longest payload of a frame that is taken in, in bytes: 16384 to 2^24 - 1, by default 16384. A frame of headers
    /// that is half received is held, of data nothing is.
    #[must_use]
    pub const fn frame_bytes(mut self, bytes: u32) -> Self {
        self.frame_bytes = clamp(bytes, FRAME_LEAST, FRAME_MOST);
        self
    }

    /// The longest list of headers, decoded, in bytes: names, values, and 32 for each; by default 16 KiB. The stream of a
    /// longer one is reset with ENHANCE_YOUR_CALM.
    #[must_use]
    pub const fn header_list_bytes(mut self, bytes: u32) -> Self {
        self.header_list_bytes = bytes;
        self
    }

    /// The longest block of headers, still encoded and with all its CONTINUATION frames, in bytes, by default 32 KiB. The
    /// connection ends at a longer one.
    #[must_use]
    pub const fn header_block_bytes(mut self, bytes: u32) -> Self {
        self.header_block_bytes = bytes;
        self
    }

    /// How many CONTINUATION frames a block may have, by default 8. The connection ends at one with more.
    #[must_use]
    pub const fn continuations(mut self, frames: u32) -> Self {
        self.continuations = frames;
        self
    }

    /// Bytes of the table that the peer compresses headers by: 4096 (what it may count on) to 65536, by default 4096.
    #[must_use]
    pub const fn decoder_table(mut self, bytes: u32) -> Self {
        self.decoder_table = clamp(bytes, TABLE_DEFAULT, 1 << 16);
        self
    }

    /// Bytes of the table that this side compresses headers by, at most, whatever the peer would allow: up to 65536, by
    /// default 4096; with 0 nothing is kept.
    #[must_use]
    pub const fn encoder_table(mut self, bytes: u32) -> Self {
        self.encoder_table = clamp(bytes, 0, 1 << 16);
        self
    }

    /// How many streams may be reset, by the peer or because of what it did wrong, by default 1000, before the connection
    /// ends with ENHANCE_YOUR_CALM. A stream that ends in order gives one back,
    /// [`refill`](crate::Connection::refill) all.
    #[must_use]
    pub const fn resets(mut self, resets: u32) -> Self {
        self.resets = resets;
        self
    }

    /// How many frames may come that bring nothing, by default 10000, before the connection ends with ENHANCE_YOUR_CALM:
    /// PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA, frames of unknown kinds and of closed streams. Frames that bring
    /// something give one back, as data that is sent does; [`refill`](crate::Connection::refill) all.
    #[must_use]
    pub const fn idle_frames(mut self, frames: u32) -> Self {
        self.idle_frames = frames;
        self
    }

    /// Bytes to be sent beyond which nothing more is read, by default 64 KiB: the peer doesn't read what it is sent. The
    /// queues of streams are no part of it.
    #[must_use]
    pub const fn output_bytes(mut self, bytes: usize) -> Self {
        self.output_bytes = bytes;
        self
    }

    /// Data of up to so many bytes is written at once if the windows allow, by default 8 KiB, without a place in the queue.
    #[must_use]
    pub const fn small_bytes(mut self, bytes: usize) -> Self {
        self.small_bytes = bytes;
        self
    }
}

const fn clamp(value: u32, least: u32, most: u32) -> u32 {
    if value < least {
        least
    } else if value > most {
        most
    } else {
        value
    }
}
