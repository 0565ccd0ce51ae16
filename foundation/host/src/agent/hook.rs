//! Where the kernel calls the programs: TCX, or filters of `clsact`.
//!
//! A TCX link is a descriptor: it ends with the process, however that ends. A filter stays. So before a filter is made,
//! those that an agent left behind are taken away, known by their names; and a `clsact` is taken away again only by who
//! made it, only if nobody else has put anything into it.

use std::io;

use aya::Ebpf;
use aya::programs::links::LinkOrder;
use aya::programs::tc::{self, NlOptions, SchedClassifierLink, TcAttachOptions, TcError};
use aya::programs::{ProgramError, SchedClassifier, TcAttachType};

use super::device::{self, LinkHeader};
use super::error::AgentError;
use super::settings::Hook;
use super::status::Role;
use super::{netlink, object};

/// A program at work at a device. It is taken away again when this is dropped.
pub(super) struct Attached {
    link: Option<SchedClassifierLink>,
    index: u32,
    /// By which hook; never [`Hook::Any`].
    pub(super) hook: Hook,
    /// Whether the device had no `clsact` before.
    pub(super) made_clsact: bool,
}

impl Drop for Attached {
    fn drop(&mut self) {
        drop(self.link.take());
        if self.made_clsact {
            let _no_matter_if_the_device_is_gone = remove_unused_clsact(self.index);
        }
    }
}

/// Attaches a role's program to a device. `made_clsact`: an earlier agent left a `clsact` of its own.
pub(super) fn attach(
    ebpf: &mut Ebpf,
    role: Role,
    name: &str,
    hook: Hook,
    made_clsact: bool,
) -> Result<Attached, AgentError> {
    let unknown = || AgentError::UnknownDevice(name.to_owned());
    let index = device::index(name).ok_or_else(unknown)?;
    let program = object::program(ebpf, role, device::link_header(name)?)?;
    // Whatever the hook is now, a filter that was left behind would judge every packet a second time.
    remove_filters(name, role).map_err(|cause| AgentError::refused("to read filters", cause))?;
    let tcx = match hook {
        Hook::Clsact => "not asked for".to_owned(),
        Hook::Tcx | Hook::Any => match by_tcx(program, role, name) {
            Ok(link) => {
                if made_clsact {
                    let _it_may_be_gone = remove_unused_clsact(index);
                }
                return Ok(Attached { link: Some(link), index, hook: Hook::Tcx, made_clsact: false });
            }
            Err(_) if device::index(name) != Some(index) => return Err(gone(name)),
            Err(error) => refused(&error)?,
        },
    };
    let clsact = match hook {
        Hook::Tcx => "not asked for".to_owned(),
        Hook::Clsact | Hook::Any => match by_clsact(program, role, name, index, made_clsact) {
            Ok(attached) => return Ok(attached),
            Err(_) if device::index(name) != Some(index) => return Err(gone(name)),
            Err(error) => refused(&error)?,
        },
    };
    Err(AgentError::NoHook { device: name.to_owned(), tcx, clsact })
}

/// Takes away filters that an agent has left at a device. Others' are left alone.
///
/// # Errors
/// If the kernel refuses. That there was none is no error.
pub(super) fn remove_filters(name: &str, role: Role) -> io::Result<bool> {
    let mut removed = false;
    for header in [LinkHeader::Ethernet, LinkHeader::None] {
        match tc::qdisc_detach_program(name, hook_of(role), object::name(role, header)) {
            Ok(()) => removed = true,
            Err(TcError::IoError(cause)) if cause.kind() == io::ErrorKind::NotFound => (),
            Err(error) => match code(&error) {
                // No `clsact`, no device: no filter.
                Some(libc::EINVAL | libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => (),
                Some(code) => return Err(io::Error::from_raw_os_error(code)),
                None => return Err(io::Error::other(error.to_string())),
            },
        }
    }
    Ok(removed)
}

/// Takes away a `clsact` that nobody has put anything into.
pub(super) fn remove_unused_clsact(index: u32) -> io::Result<bool> {
    if !netlink::has_clsact(index)? || netlink::has_filters(index)? {
        return Ok(false);
    }
    netlink::remove_clsact(index).map(|()| true)
}

fn by_tcx(program: &mut SchedClassifier, role: Role, name: &str) -> Result<SchedClassifierLink, ProgramError> {
    // First, as it lets everything pass: what stands behind it may not.
    let order = TcAttachOptions::TcxOrder(LinkOrder::first());
    let id = program.attach_with_options(name, hook_of(role), order)?;
    program.take_link(id)
}

fn by_clsact(
    program: &mut SchedClassifier,
    role: Role,
    name: &str,
    index: u32,
    made_before: bool,
) -> Result<Attached, ProgramError> {
    let made = match tc::qdisc_add_clsact(name) {
        Ok(()) => true,
        Err(error) if code(&error) == Some(libc::EEXIST) => made_before,
        Err(error) => return Err(error.into()),
    };
    // From here on, an error takes it away again.
    let mut attached = Attached { link: None, index, hook: Hook::Clsact, made_clsact: made };
    let id = program.attach_with_options(name, hook_of(role), TcAttachOptions::Netlink(NlOptions::default()))?;
    attached.link = Some(program.take_link(id)?);
    Ok(attached)
}

/// What a guest sends comes in at the host's side.
fn hook_of(role: Role) -> TcAttachType {
    match role {
        Role::Guest | Role::Trusted => TcAttachType::Ingress,
        Role::Uplink => TcAttachType::Egress,
    }
}

fn gone(name: &str) -> AgentError {
    AgentError::UnknownDevice(name.to_owned())
}

/// Why a hook can't be had; an error if that is for lack of a permission, which no other hook would change.
fn refused(error: &ProgramError) -> Result<String, AgentError> {
    let code = match error {
        ProgramError::SyscallError(error) => error.io_error.raw_os_error(),
        ProgramError::NetlinkError(error) => error.raw_os_error(),
        ProgramError::TcError(error) => code(error),
        _ => None,
    };
    match code {
        Some(code @ (libc::EPERM | libc::EACCES)) => {
            Err(AgentError::NotPermitted { what: "to attach a program", cause: io::Error::from_raw_os_error(code) })
        }
        Some(code) => Ok(io::Error::from_raw_os_error(code).to_string()),
        None => Ok(error.to_string()),
    }
}

fn code(error: &TcError) -> Option<i32> {
    match error {
        TcError::NetlinkError(error) => error.raw_os_error(),
        TcError::IoError(error) => error.raw_os_error(),
        _ => None,
    }
}
