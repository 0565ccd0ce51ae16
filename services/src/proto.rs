//! The messages, methods, servers and clients of the services, made from `proto/*.proto`.

/// The search service.
pub mod search {
    include!(concat!(env!("OUT_DIR"), "/greenwave.search.rs"));

    /// The aggregator's method.
    pub const QUERY: &str = search_methods::QUERY;

    /// A shard's method.
    pub const SHARD_QUERY: &str = search_shard_methods::QUERY;
}

/// The recommend service.
pub mod recommend {
    include!(concat!(env!("OUT_DIR"), "/greenwave.recommend.rs"));

    /// The first stage's method.
    pub const PROFILE: &str = profile_methods::RECOMMEND;

    /// The second stage's method.
    pub const HISTORY: &str = history_methods::RECOMMEND;

    /// The third stage's method.
    pub const RECOMMENDATION: &str = recommendation_methods::RECOMMEND;
}

/// The kv service.
pub mod kv {
    include!(concat!(env!("OUT_DIR"), "/greenwave.kv.rs"));

    /// Reads a row.
    pub const GET: &str = kv_methods::GET;

    /// Writes a row.
    pub const PUT: &str = kv_methods::PUT;

    /// Reads all rows.
    pub const SCAN: &str = kv_methods::SCAN;

    /// Says what the store was made with.
    pub const DESCRIBE: &str = kv_methods::DESCRIBE;
}

/// All files as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = search::FILE_DESCRIPTOR_SET;
