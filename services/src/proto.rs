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

/// The replicated store.
pub mod replicated {
    include!(concat!(env!("OUT_DIR"), "/greenwave.replicated.rs"));

    /// Opens a session.
    pub const OPEN: &str = store_methods::OPEN;

    /// Writes a row.
    pub const PUT: &str = store_methods::PUT;

    /// Removes a row.
    pub const DELETE: &str = store_methods::DELETE;

    /// Writes a row if it is what it is expected to be.
    pub const COMPARE_AND_SWAP: &str = store_methods::COMPARE_AND_SWAP;

    /// Reads a row.
    pub const GET: &str = store_methods::GET;

    /// Reads rows in order.
    pub const RANGE: &str = store_methods::RANGE;

    /// Says who leads.
    pub const DESCRIBE: &str = store_methods::DESCRIBE;
}

/// All files as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = search::FILE_DESCRIPTOR_SET;
