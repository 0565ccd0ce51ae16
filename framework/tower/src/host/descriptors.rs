//! The methods of a service, from a `FileDescriptorSet`.

use super::{DescriptorError, Method};
use prost::Message as _;
use prost_types::{FileDescriptorSet, MethodDescriptorProto};

/// The methods of a service, by its full name.
pub(super) fn methods(set: &[u8], service: &str) -> Result<Vec<Method>, DescriptorError> {
    let set = FileDescriptorSet::decode(set).map_err(|_| DescriptorError::Malformed)?;
    let (package, short) = service.rsplit_once('.').unwrap_or(("", service));
    let files = set.file.iter().filter(|file| file.package() == package);
    let found = files.flat_map(|file| &file.service).find(|found| found.name() == short);
    let found = found.ok_or_else(|| DescriptorError::NoService(service.to_owned()))?;
    let method = |method: &MethodDescriptorProto| Method {
        name: method.name().to_owned(),
        streams: method.client_streaming() || method.server_streaming(),
    };
    Ok(found.method.iter().map(method).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::{FileDescriptorProto, ServiceDescriptorProto};

    #[test]
    fn a_services_methods_are_found_by_its_full_name() {
        let method = |name: &str, client_streaming, server_streaming| MethodDescriptorProto {
            name: Some(name.to_owned()),
            client_streaming,
            server_streaming,
            ..Default::default()
        };
        let service = ServiceDescriptorProto {
            name: Some("Map".to_owned()),
            method: vec![method("At", None, None), method("Watch", None, Some(true)), method("Put", Some(true), None)],
            ..Default::default()
        };
        let file = |package: &str, service| FileDescriptorProto {
            package: Some(package.to_owned()),
            service,
            ..Default::default()
        };
        let set = FileDescriptorSet { file: vec![file("a", vec![]), file("a.b", vec![service])] }.encode_to_vec();
        let found: Vec<_> = methods(&set, "a.b.Map").unwrap().into_iter().map(|it| (it.name, it.streams)).collect();
        let expected = [("At", false), ("Watch", true), ("Put", true)];
        assert_eq!(found, expected.map(|(name, streams)| (name.to_owned(), streams)));
        assert_eq!(methods(&set, "a.Map"), Err(DescriptorError::NoService("a.Map".to_owned())));
        assert_eq!(methods(b"\xff", "a.b.Map"), Err(DescriptorError::Malformed));
    }
}
