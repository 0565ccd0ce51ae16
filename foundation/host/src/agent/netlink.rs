//! What the kernel says of devices and queueing disciplines, and is told.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Both hooks of `clsact`, as parents of filters.
const HOOKS: [u32; 2] = [0xffff_fff2, 0xffff_fff3];

/// Whether anybody has a filter at a device's `clsact`.
pub(super) fn has_filters(index: u32) -> io::Result<bool> {
    for hook in HOOKS {
        let mut message = about(index);
        message.header.parent = TcHandle::from(hook);
        let mut filters = 0;
        ask(RouteNetlinkMessage::GetTrafficFilter(message), NLM_F_DUMP, |answer| {
            filters += usize::from(matches!(answer, RouteNetlinkMessage::NewTrafficFilter(_)));
        })?;
        if filters > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a device has a `clsact`.
pub(super) fn has_clsact(index: u32) -> io::Result<bool> {
    let mut found = false;
    ask(RouteNetlinkMessage::GetQueueDiscipline(about(index)), NLM_F_DUMP, |answer| {
        if let RouteNetlinkMessage::NewQueueDiscipline(message) = answer {
            let is_clsact = |it: &TcAttribute| matches!(it, TcAttribute::Kind(kind) if kind == "clsact");
            found |= message.header.index == index.cast_signed() && message.attributes.iter().any(is_clsact);
        }
    })?;
    Ok(found)
}

/// Takes away a device's `clsact`, with all that is in it.
pub(super) fn remove_clsact(index: u32) -> io::Result<()> {
    let mut message = about(index);
    message.header.handle = TcHandle::from(0xffff_0000);
    message.header.parent = TcHandle::CLSACT;
    message.attributes.push(TcAttribute::Kind("clsact".to_owned()));
    ask(RouteNetlinkMessage::DelQueueDiscipline(message), NLM_F_ACK, |_| ())
}

/// Hears when devices come, go or change.
pub(super) struct DeviceEvents(Socket);

impl DeviceEvents {
    pub(super) fn listen() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.set_non_blocking(true)?;
        socket.bind(&SocketAddr::new(0, libc::RTMGRP_LINK as u32))?;
        Ok(Self(socket))
    }

    /// Forgets what was heard. What there is now is looked up anyway, so it doesn't matter if something was lost.
    pub(super) fn clear(&self) {
        let mut buffer = [0_u8; 8 << 10];
        for _ in 0..1000 {
            match self.0.recv(&mut &mut buffer[..], 0) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                _ => (),
            }
        }
    }
}

impl AsFd for DeviceEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the socket owns the descriptor and outlives the borrow.
        unsafe { BorrowedFd::borrow_raw(self.0.as_raw_fd()) }
    }
}

fn about(index: u32) -> TcMessage {
    TcMessage::with_index(index.cast_signed())
}

/// Sends a request and hears all answers to it.
fn ask(request: RouteNetlinkMessage, flags: u16, mut heard: impl FnMut(&RouteNetlinkMessage)) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    loop {
        let (datagram, _) = socket.recv_from_full()?;
        let mut rest = &datagram[..];
        while rest.len() >= size_of::<libc::nlmsghdr>() {
            // Of filters and disciplines that the library doesn't know it can't read everything; they are counted.
            let length = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
            let kind = u16::from_ne_bytes([rest[4], rest[5]]);
            let bounded = length.clamp(size_of::<libc::nlmsghdr>(), rest.len());
            match NetlinkMessage::<RouteNetlinkMessage>::deserialize(&rest[..bounded]).map(|it| it.payload) {
                Ok(NetlinkPayload::Done(_)) => return Ok(()),
                Ok(NetlinkPayload::Error(error)) if error.code.is_none() => return Ok(()),
                Ok(NetlinkPayload::Error(error)) => return Err(error.to_io()),
                Ok(NetlinkPayload::InnerMessage(answer)) => heard(&answer),
                Ok(_) => (),
                Err(_) if kind == libc::RTM_NEWTFILTER => {
                    heard(&RouteNetlinkMessage::NewTrafficFilter(TcMessage::default()));
                }
                Err(_) => (),
            }
            rest = &rest[bounded.next_multiple_of(4).min(rest.len())..];
        }
    }
}
