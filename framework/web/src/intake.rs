//! A request's message, while it arrives: as it is, within gRPC's frame, or within base64.

use greenwave_proto::status::{Code, Reason, Status};

/// Bytes before a message in a frame: whether it is compressed, and its length, big-endian.
const PREFIX: usize = 5;

/// Room is made for so many bytes on the peer's word, and beyond that as they arrive.
const TRUSTED: usize = 1 << 20;

/// The message of one request. It holds no more than the longest message that is accepted.
#[derive(Debug)]
pub struct Intake {
    frame: Option<Frame>,
    text: Option<Text>,
    body: Vec<u8>,
    /// The bytes that it is said to have.
    announced: usize,
    /// The longest message, in bytes.
    most: usize,
}

#[derive(Debug, Default)]
struct Frame {
    prefix: [u8; PREFIX],
    /// How many bytes of the prefix are there.
    begun: usize,
}

/// Base64, of which up to three characters wait for the fourth.
#[derive(Debug, Default)]
struct Text {
    kept: [u8; 3],
    count: usize,
}

impl Frame {
    fn len(&self) -> usize {
        let [_, len @ ..] = self.prefix;
        u32::from_be_bytes(len) as usize
    }
}

impl Intake {
    /// A message that is all of the body.
    pub(crate) fn bare(most: usize) -> Self {
        Self { frame: None, text: None, body: Vec::new(), announced: 0, most }
    }

    /// A message in a frame, which base64 may lie around.
    pub(crate) fn framed(text: bool, most: usize) -> Self {
        Self { frame: Some(Frame::default()), text: text.then(Text::default), body: Vec::new(), announced: 0, most }
    }

    /// A body of so many bytes is to come. `buffer` gives an empty buffer for about as many.
    ///
    /// # Errors
    /// It is too long.
    pub fn expect(&mut self, len: usize, buffer: &mut dyn FnMut(usize) -> Vec<u8>) -> Result<(), Status> {
        if self.frame.is_none() {
            self.check(len)?;
            self.announced = len;
            self.body = buffer(len.min(TRUSTED));
        }
        Ok(())
    }

    /// Adds what arrived of the body.
    ///
    /// # Errors
    /// It is too long, or no frame, or no base64.
    pub fn add(&mut self, bytes: &[u8], buffer: &mut dyn FnMut(usize) -> Vec<u8>) -> Result<(), Status> {
        let Some(mut text) = self.text.take() else { return self.add_decoded(bytes, buffer) };
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut block = [0; 3 * 64];
            let mut len = 0;
            while len < block.len() && text.count + rest.len() >= 4 {
                let mut quad = [0; 4];
                let (kept, taken) = quad.split_at_mut(text.count);
                kept.copy_from_slice(&text.kept[..text.count]);
                let (now, after) = rest.split_at(taken.len());
                taken.copy_from_slice(now);
                (rest, text.count) = (after, 0);
                let (bytes, count) = decode(quad).ok_or_else(|| malformed("its text is not base64"))?;
                block[len..len + count].copy_from_slice(&bytes[..count]);
                len += count;
                if count < 3 {
                    break;
                }
            }
            self.add_decoded(&block[..len], buffer)?;
            if text.count + rest.len() < 4 {
                text.kept[text.count..text.count + rest.len()].copy_from_slice(rest);
                text.count += rest.len();
                break;
            }
        }
        self.text = Some(text);
        Ok(())
    }

    fn add_decoded(&mut self, mut bytes: &[u8], buffer: &mut dyn FnMut(usize) -> Vec<u8>) -> Result<(), Status> {
        let most = match &mut self.frame {
            None => self.most,
            Some(frame) => {
                if frame.begun < PREFIX {
                    let (taken, rest) = bytes.split_at(bytes.len().min(PREFIX - frame.begun));
                    frame.prefix[frame.begun..frame.begun + taken.len()].copy_from_slice(taken);
                    frame.begun += taken.len();
                    bytes = rest;
                    if frame.begun < PREFIX {
                        return Ok(());
                    }
                    let (flags, len) = (frame.prefix[0], frame.len());
                    match flags {
                        0 | 1 => {}
                        other => return Err(malformed(&format!("a message begins with {other}"))),
                    }
                    self.check(len)?;
                    self.announced = len;
                    self.body = buffer(len.min(TRUSTED));
                }
                self.frame.as_ref().map_or(0, Frame::len)
            }
        };
        let len = self.body.len() + bytes.len();
        if self.frame.is_some() && len > most {
            return Err(malformed("there is more than one message, and the method takes one"));
        }
        self.check(len)?;
        self.body.extend_from_slice(bytes);
        Ok(())
    }

    fn check(&self, len: usize) -> Result<(), Status> {
        let most = self.most;
        if len <= most {
            return Ok(());
        }
        let text = format!("the request has {len} bytes, accepted are {most}");
        Err(Status::refused(Reason::MessageTooLarge, text))
    }

    /// Bytes that the message has, or is said to have.
    pub fn len(&self) -> usize {
        self.announced.max(self.body.len())
    }

    /// Whether nothing is known of the message.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the message is compressed, if it can be: in a frame that says so, or all of the body, if there is one.
    pub(crate) fn may_be_compressed(&self) -> bool {
        self.frame.as_ref().map_or(!self.body.is_empty(), |frame| frame.prefix[0] == 1)
    }

    /// Whether a frame says that it is.
    pub(crate) fn is_said_compressed(&self) -> bool {
        self.frame.is_some() && self.may_be_compressed()
    }

    /// The message: all of the body is there.
    ///
    /// # Errors
    /// It is not all there.
    pub fn finish(self) -> Result<Vec<u8>, Status> {
        if self.text.is_some_and(|text| text.count > 0) {
            return Err(malformed("its text is not base64"));
        }
        let Some(frame) = self.frame else { return Ok(self.body) };
        let (found, announced) = (self.body.len(), frame.len());
        match frame.begun {
            0 => Err(malformed("there is no message, and the method takes one")),
            PREFIX if found == announced => Ok(self.body),
            PREFIX => Err(malformed(&format!("the message ends after {found} of {announced} bytes"))),
            _ => Err(malformed("the message ends before its length")),
        }
    }
}

fn malformed(text: &str) -> Status {
    Status::new(Code::Internal, format!("the request can't be read: {text}"))
}

/// The bytes that four characters stand for, and how many: fewer than three at the end of a text. Texts may follow one
/// another, each with its padding.
fn decode(quad: [u8; 4]) -> Option<([u8; 3], usize)> {
    let count = match quad {
        [_, _, b'=', b'='] => 1,
        [_, _, _, b'='] => 2,
        _ => 3,
    };
    let mut number = 0_u32;
    for character in &quad[..=count] {
        number = number << 6 | u32::from(value(*character)?);
    }
    let [_, bytes @ ..] = (number << (6 * (3 - count))).to_be_bytes();
    Some((bytes, count))
}

fn value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn read(mut intake: Intake, bytes: &[u8], cut: usize) -> Result<Vec<u8>, Status> {
        for piece in bytes.chunks(cut) {
            intake.add(piece, &mut Vec::with_capacity)?;
        }
        intake.finish()
    }

    fn framed(message: &[u8]) -> Vec<u8> {
        [&[0], &(message.len() as u32).to_be_bytes()[..], message].concat()
    }

    proptest! {
        /// However it is written, and however it is cut on its way.
        #[test]
        fn a_message_comes_in_as_it_was(
            message in prop::collection::vec(any::<u8>(), 0..700),
            cut in 1_usize..300,
            part in 1_usize..300,
        ) {
            prop_assert_eq!(read(Intake::bare(700), &message, cut), Ok(message.clone()));
            let frame = framed(&message);
            prop_assert_eq!(read(Intake::framed(false, 700), &frame, cut), Ok(message.clone()));
            // Each part is a text of its own, with its padding.
            let text: String = frame.chunks(part).map(|part| STANDARD.encode(part)).collect();
            prop_assert_eq!(read(Intake::framed(true, 700), text.as_bytes(), cut), Ok(message));
        }

        #[test]
        fn whatever_arrives_is_a_message_or_a_failure(
            bytes in prop::collection::vec(0..9_u8, 0..40),
            text in "[A-D=+]{0,60}",
            cut in 1_usize..30,
        ) {
            let read = [
                read(Intake::bare(20), &bytes, cut),
                read(Intake::framed(false, 20), &bytes, cut),
                read(Intake::framed(true, 20), text.as_bytes(), cut),
            ];
            prop_assert!(read.into_iter().flatten().all(|message| message.len() <= 20));
        }
    }

    #[test]
    fn what_is_no_single_message_is_said_to_be_none() {
        let code = |text, bytes: &[u8]| read(Intake::framed(text, 100), bytes, 4).map_err(|status| status.code);
        let whole = framed(&[7]);
        assert_eq!(code(false, &whole), Ok(vec![7]));
        assert_eq!(code(false, &[]), Err(Code::Internal));
        assert_eq!(code(false, &whole[..3]), Err(Code::Internal));
        assert_eq!(code(false, &whole[..5]), Err(Code::Internal));
        assert_eq!(code(false, &[&whole[..], &whole].concat()), Err(Code::Internal));
        assert_eq!(code(false, &[2, 0, 0, 0, 1, 7]), Err(Code::Internal));
        assert_eq!(code(false, &[0, 0xff, 0xff, 0xff, 0xff]), Err(Code::ResourceExhausted));
        assert_eq!(code(true, b"AAAAAAEH"), Ok(vec![7]));
        assert_eq!(code(true, b"AAAAAAEH="), Err(Code::Internal));
        assert_eq!(code(true, b"AAAAAAE*"), Err(Code::Internal));
        assert_eq!(code(true, b"A==="), Err(Code::Internal));
        let mut announced = Intake::bare(100);
        assert_eq!(
            announced.expect(101, &mut Vec::with_capacity).map_err(|status| status.code),
            Err(Code::ResourceExhausted)
        );
    }
}
