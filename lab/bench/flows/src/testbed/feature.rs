//! Features of devices, which the kernel is told of over generic netlink, as `ethtool -K` does.
//!
//! Numbers that the library doesn't know are those of Linux's `ethtool_netlink.h`.

use std::io;

use netlink_packet_core::{
    DecodeError, DefaultNla, Emitable, NLA_F_NESTED, NLM_F_ACK, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable, ParseableParametrized,
};
use netlink_packet_generic::ctrl::nlas::GenlCtrlAttrs;
use netlink_packet_generic::ctrl::{GenlCtrl, GenlCtrlCmd};
use netlink_packet_generic::{GenlFamily, GenlHeader, GenlMessage};
use netlink_sys::protocols::NETLINK_GENERIC;
use netlink_sys::{Socket, SocketAddr};

/// Turns a feature of a device on, in the namespace of this thread; one that is on or fixed is left as it is.
pub(super) fn turn_on(device: &str, feature: &str) -> io::Result<()> {
    let lookup = GenlCtrl {
        cmd: GenlCtrlCmd::GetFamily,
        nlas: vec![GenlCtrlAttrs::FamilyName(Features::family_name().to_owned())],
    };
    let found = ask(GenlMessage::from_payload(lookup))?.map(|answer| answer.payload.nlas).unwrap_or_default();
    let id = found.into_iter().find_map(|it| if let GenlCtrlAttrs::FamilyId(id) = it { Some(id) } else { None });
    let id = id.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "the kernel has no ethtool netlink"))?;
    let mut request = GenlMessage::from_payload(Features(wanted(device, feature)));
    request.set_resolved_family_id(id);
    ask(request).map(drop)
}

/// What the kernel is asked to set (`ETHTOOL_MSG_FEATURES_SET`), or says in answer.
#[derive(Debug)]
struct Features(Vec<DefaultNla>);

impl GenlFamily for Features {
    fn family_name() -> &'static str {
        "ethtool"
    }

    fn command(&self) -> u8 {
        12
    }

    fn version(&self) -> u8 {
        1
    }
}

impl Emitable for Features {
    fn buffer_len(&self) -> usize {
        self.0.as_slice().buffer_len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        self.0.as_slice().emit(buffer);
    }
}

impl ParseableParametrized<[u8], GenlHeader> for Features {
    /// What a feature has become isn't asked for.
    fn parse_with_param(_: &[u8], _: GenlHeader) -> Result<Self, DecodeError> {
        Ok(Self(Vec::new()))
    }
}

/// The device (`ETHTOOL_A_FEATURES_HEADER`), and the one bit that is to be set (`ETHTOOL_A_FEATURES_WANTED`).
fn wanted(device: &str, feature: &str) -> Vec<DefaultNla> {
    let text = |kind, text: &str| DefaultNla::new(kind, [text.as_bytes(), &[0]].concat());
    let value = DefaultNla::new(3, Vec::new());
    let bit = nested(1, &[text(2, feature), value]);
    vec![nested(1, &[text(2, device)]), nested(3, &[nested(3, &[bit])])]
}

fn nested(kind: u16, parts: &[DefaultNla]) -> DefaultNla {
    let mut value = vec![0; parts.buffer_len()];
    parts.emit(&mut value);
    DefaultNla::new(kind | NLA_F_NESTED, value)
}

/// Sends a request, and returns what came before it was acknowledged.
fn ask<F>(request: GenlMessage<F>) -> io::Result<Option<GenlMessage<F>>>
where
    F: std::fmt::Debug,
    GenlMessage<F>: NetlinkSerializable + NetlinkDeserializable,
{
    let mut socket = Socket::new(NETLINK_GENERIC)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_ACK;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut found = None;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let answer = NetlinkMessage::<GenlMessage<F>>::deserialize(&datagram).map_err(io::Error::other)?;
        match answer.payload {
            NetlinkPayload::InnerMessage(message) => found = Some(message),
            NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
            _ => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_not_there_and_a_feature_that_nobody_has_are_refused() {
        let refused = turn_on("no-such-device", "rx-gro").unwrap_err();
        // Whoever isn't root hears of that first.
        assert!([Some(1), Some(19)].contains(&refused.raw_os_error()), "{refused}");
        let refused = turn_on("lo", "no-such-feature").unwrap_err();
        assert!([Some(1), Some(95)].contains(&refused.raw_os_error()), "{refused}");
    }
}
