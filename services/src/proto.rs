//! The messages of the services, made from `proto/*.proto`, and the names of their methods.

/// Messages of the search service.
pub mod search {
    include!(concat!(env!("OUT_DIR"), "/search.rs"));

    /// The aggregator's method.
    pub const QUERY: &str = "search.Search/Query";

    /// A shard's method.
    pub const SHARD_QUERY: &str = "search.SearchShard/Query";
}

/// Messages of the recommend service.
pub mod recommend {
    include!(concat!(env!("OUT_DIR"), "/recommend.rs"));

    /// The first stage's method.
    pub const PROFILE: &str = "recommend.Profile/Recommend";

    /// The second stage's method.
    pub const HISTORY: &str = "recommend.History/Recommend";

    /// The third stage's method.
    pub const RECOMMENDATION: &str = "recommend.Recommendation/Recommend";
}

/// Both files as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
