//! Network devices of this namespace: their names, numbers and kinds.

use std::ffi::{CStr, CString};
use std::io;

use rustix::net::{AddressFamily, SocketType, socket};

use super::error::AgentError;

/// What packets on a device begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkHeader {
    /// 14 bytes of Ethernet.
    Ethernet,
    /// The IP header.
    None,
}

/// A device's number, if there is such a device.
pub(super) fn index(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with a NUL and outlives the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    (index != 0).then_some(index)
}

/// All devices there are, with their numbers.
pub(super) fn all() -> io::Result<Vec<(String, u32)>> {
    // SAFETY: no arguments; what is returned is checked below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut devices = Vec::new();
    let mut entry = list;
    // SAFETY: the list ends with an entry whose number is zero and whose name is null, and is there until it is freed.
    while let libc::if_nameindex { if_index: index @ 1.., if_name } = unsafe { *entry } {
        // SAFETY: the name of an entry before the last ends with a NUL.
        let name = unsafe { CStr::from_ptr(if_name) };
        devices.push((name.to_string_lossy().into_owned(), index));
        // SAFETY: this was not the last entry, so there is another.
        entry = unsafe { entry.add(1) };
    }
    // SAFETY: the list came from `if_nameindex` and is not used any more.
    unsafe { libc::if_freenameindex(list) };
    Ok(devices)
}

/// What packets on a device begin with.
///
/// # Errors
/// If they begin with neither an Ethernet nor an IP header, or the device is gone.
pub(super) fn link_header(name: &str) -> Result<LinkHeader, AgentError> {
    let unknown = || AgentError::UnknownDevice(name.to_owned());
    let refused = |cause| AgentError::refused("a socket", cause);
    let asking = socket(AddressFamily::INET, SocketType::DGRAM, None).map_err(refused)?;
    // SAFETY: all zeros is a valid request: an empty name and no address.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(unknown());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    // SAFETY: the kernel reads a name, which ends with a NUL, and writes an address within the request.
    let asked = unsafe { libc::ioctl(std::os::fd::AsRawFd::as_raw_fd(&asking), libc::SIOCGIFHWADDR, &raw mut request) };
    if asked < 0 {
        return Err(unknown());
    }
    // SAFETY: the kernel has filled in a hardware address; every bit pattern is one.
    let kind = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    match kind {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Ok(LinkHeader::Ethernet),
        libc::ARPHRD_NONE => Ok(LinkHeader::None),
        kind => Err(AgentError::LinkType { name: name.to_owned(), kind }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_has_a_loopback_device() {
        let number = index("lo").unwrap();
        assert!(all().unwrap().contains(&("lo".to_owned(), number)));
        assert_eq!(link_header("lo").unwrap(), LinkHeader::Ethernet);
    }

    #[test]
    fn a_device_that_is_not_there_is_unknown() {
        assert_eq!(index("no-such-device"), None);
        assert_eq!(index("a\0b"), None);
        let long = "a".repeat(100);
        for name in ["no-such", &long] {
            assert!(matches!(link_header(name), Err(AgentError::UnknownDevice(_))), "{name}");
        }
    }
}
