//! Little-endian fields at fixed offsets.
//!
//! Every offset passed here is a constant within the array's length, so the checks are gone once it is inlined.

#[inline(always)]
pub(super) fn u16_at<const N: usize>(fixed: &[u8; N], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(fixed, at))
}

#[inline(always)]
pub(super) fn u32_at<const N: usize>(fixed: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(fixed, at))
}

#[inline(always)]
pub(super) fn u64_at<const N: usize>(fixed: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(fixed, at))
}

#[inline(always)]
pub(super) fn bytes_at<const N: usize, const M: usize>(fixed: &[u8; N], at: usize) -> [u8; M] {
    let mut field = [0; M];
    field.copy_from_slice(&fixed[at..at + M]);
    field
}

#[inline(always)]
pub(super) fn put<const N: usize, const M: usize>(fixed: &mut [u8; N], at: usize, field: [u8; M]) {
    fixed[at..at + M].copy_from_slice(&field);
}
