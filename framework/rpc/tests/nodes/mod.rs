//! A service whose messages hold one another: `service a.A { rpc Change(Node) returns (Node); rpc Read(Node) returns (Node) }`,
//! of which `Read` has no side effects.

use prost_reflect::DescriptorPool;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::method_options::IdempotencyLevel;
use prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto,
    MethodOptions, ServiceDescriptorProto,
};

/// Its descriptors.
pub(crate) fn descriptors() -> &'static [u8] {
    let field = |name: &str, number, label: Label, r#type: Type, type_name: Option<&str>| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(r#type.into()),
        type_name: type_name.map(Into::into),
        ..Default::default()
    };
    let node = DescriptorProto {
        name: Some("Node".into()),
        field: vec![
            field("big_number", 1, Label::Optional, Type::Uint64, None),
            field("next", 2, Label::Optional, Type::Message, Some(".a.Node")),
            field("all", 3, Label::Repeated, Type::Message, Some(".a.Node")),
            field("any", 4, Label::Optional, Type::Message, Some(".google.protobuf.Any")),
            field("value", 5, Label::Optional, Type::Message, Some(".google.protobuf.Value")),
        ],
        ..Default::default()
    };
    let method = |name: &str, level: IdempotencyLevel| MethodDescriptorProto {
        name: Some(name.into()),
        input_type: Some(".a.Node".into()),
        output_type: Some(".a.Node".into()),
        options: Some(MethodOptions { idempotency_level: Some(level.into()), ..Default::default() }),
        ..Default::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("A".into()),
        method: vec![
            method("Change", IdempotencyLevel::IdempotencyUnknown),
            method("Read", IdempotencyLevel::NoSideEffects),
        ],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("a.proto".into()),
        package: Some("a".into()),
        dependency: vec!["google/protobuf/any.proto".into(), "google/protobuf/struct.proto".into()],
        message_type: vec![node],
        service: vec![service],
        syntax: Some("proto3".into()),
        ..Default::default()
    };
    let known = DescriptorPool::global();
    let known = |name| known.get_file_by_name(name).unwrap().file_descriptor_proto().clone();
    let file = vec![known("google/protobuf/any.proto"), known("google/protobuf/struct.proto"), file];
    FileDescriptorSet { file }.encode_to_vec().leak()
}
