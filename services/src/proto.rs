//! The messages of the services, made from `proto/*.proto`, and the names of their methods.

/// Messages of the search service.
pub mod search {
    include!(concat!(env!("OUT_DIR"), "/greenwave.search.rs"));

    /// The aggregator's method.
    pub const QUERY: &str = "greenwave.search.Search/Query";

    /// A shard's method.
    pub const SHARD_QUERY: &str = "greenwave.search.SearchShard/Query";
}

/// Messages of the recommend service.
pub mod recommend {
    include!(concat!(env!("OUT_DIR"), "/greenwave.recommend.rs"));

    /// The first stage's method.
    pub const PROFILE: &str = "greenwave.recommend.Profile/Recommend";

    /// The second stage's method.
    pub const HISTORY: &str = "greenwave.recommend.History/Recommend";

    /// The third stage's method.
    pub const RECOMMENDATION: &str = "greenwave.recommend.Recommendation/Recommend";
}

/// Both files as an encoded `FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    #[test]
    fn the_methods_are_named_as_in_the_files() {
        let pool = DescriptorPool::decode(DESCRIPTORS).unwrap();
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let mut named: Vec<_> =
            methods.map(|it| format!("{}/{}", it.parent_service().full_name(), it.name())).collect();
        named.sort();
        let constants =
            [recommend::HISTORY, recommend::PROFILE, recommend::RECOMMENDATION, search::QUERY, search::SHARD_QUERY];
        assert_eq!(named, constants);
    }
}
