//! The programs of Phoenix, a suite for MapReduce on shared memory (Ranger et al., HPCA 2007), each as one thread of it.

pub(crate) mod histogram;
pub(crate) mod kmeans;
pub(crate) mod linear_regression;
pub(crate) mod matrix_multiply;
pub(crate) mod pca;
pub(crate) mod reverse_index;
pub(crate) mod string_match;
pub(crate) mod word_count;
