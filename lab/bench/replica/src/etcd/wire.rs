//! The part of etcd's API that is used here, as its documentation numbers it.

/// `etcdserverpb.KV/Put`.
pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
/// `etcdserverpb.KV/Range`.
pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
/// `etcdserverpb.Maintenance/Status`.
pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

/// Without an end of the range it is one key. Reads are linearizable unless they say otherwise.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    /// The leader's member id; 0 if this member knows of none.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ResponseHeader {
    /// Of the member that answers.
    #[prost(uint64, tag = "2")]
    pub(crate) member_id: u64,
}
