//! Commands within an entry.
//!
//! Each command is `client: u64`, `sequence: u64`, `length: u32`, all little-endian, and its bytes; one follows the
//! other up to the entry's end. An entry is one batch because what consensus costs, it costs per entry.

use crate::{ClientId, Sequence, Session};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes that a command needs beside its own.
pub const COMMAND_OVERHEAD: usize = 20;

/// Appends a command to a batch. A command has less than 2^32 bytes; the core's limit is below that.
pub fn push(batch: &mut BytesMut, session: Session, command: &[u8]) {
    batch.put_u64_le(session.client.0);
    batch.put_u64_le(session.sequence.0);
    batch.put_u32_le(command.len() as u32);
    batch.extend_from_slice(command);
}

/// The commands of a batch, in order.
///
/// All replicas have the same bytes, so where they end within a command, it ends for all of them there.
#[derive(Clone, Debug)]
pub struct Commands(Bytes);

impl Commands {
    /// Those in an entry's data.
    #[must_use]
    pub const fn of(data: Bytes) -> Self {
        Self(data)
    }
}

impl Iterator for Commands {
    type Item = (Session, Bytes);

    fn next(&mut self) -> Option<Self::Item> {
        let client = ClientId(self.0.try_get_u64_le().ok()?);
        let sequence = Sequence(self.0.try_get_u64_le().ok()?);
        let length = self.0.try_get_u32_le().ok()? as usize;
        (length <= self.0.len()).then(|| (Session { client, sequence }, self.0.split_to(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn commands_come_out_as_they_went_in_and_a_torn_batch_ends(
            commands in prop::collection::vec((any::<(u64, u64)>(), prop::collection::vec(any::<u8>(), 0..30)), 0..20),
            cut in 0_usize..400,
        ) {
            let commands: Vec<(Session, Bytes)> = commands
                .into_iter()
                .map(|((client, sequence), bytes)| {
                    (Session { client: ClientId(client), sequence: Sequence(sequence) }, Bytes::from(bytes))
                })
                .collect();
            let mut batch = BytesMut::new();
            commands.iter().for_each(|(session, command)| push(&mut batch, *session, command));
            let batch = batch.freeze();
            prop_assert_eq!(Commands::of(batch.clone()).collect::<Vec<_>>(), commands.clone());

            let torn: Vec<_> = Commands::of(batch.slice(..cut.min(batch.len()))).collect();
            prop_assert!(commands.starts_with(&torn));
        }
    }
}
