//! [`HugePages`]: an allocator for the results of many groups.

use std::alloc::{GlobalAlloc, Layout, System};

/// The minimum number of bytes of an allocation that asks for huge pages.
const LARGE: usize = 4 << 20;
/// The size of a huge page.
#[cfg(target_os = "linux")]
const PAGE: usize = 2 << 20;

/// The system's allocator, which asks Linux for huge pages for allocations of 4 MiB and more.
///
/// The results of a million groups, and the rows made from them, are such allocations, and each is used once.
/// In virtual machines, touching their pages of 4 KiB for the first time takes up to a fifth of a query.
/// `tet-sql` and the Python package use this allocator; an application that embeds the library may do so, too.
/// It has no effect where `/sys/kernel/mm/transparent_hugepage/enabled` is `never`, and on other systems.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: tet_sql::HugePages = tet_sql::HugePages;
/// # fn main() {}
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// Asks for huge pages for the part of an allocation that consists of whole ones.
fn advise(start: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    if size >= LARGE && !start.is_null() {
        let before = start.align_offset(PAGE);
        let whole = size.saturating_sub(before) / PAGE * PAGE;
        // SAFETY: the range lies within the allocation. The advice changes no contents, and whether the kernel
        // follows it makes no difference but in speed.
        unsafe { libc::madvise(start.add(before).cast(), whole, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, size, LARGE);
}

// SAFETY: every call is forwarded to the system's allocator unchanged.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        let start = unsafe { System.alloc(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        let start = unsafe { System.alloc_zeroed(layout) };
        advise(start, layout.size());
        start
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the same contract.
        let start = unsafe { System.realloc(start, layout, size) };
        advise(start, size);
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(start, layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_allocations_keep_their_bytes() {
        for size in [1, LARGE - 1, LARGE, LARGE + 12345] {
            for align in [1, 64, 4096] {
                let layout = Layout::from_size_align(size, align).unwrap();
                // SAFETY: the layout is not empty, and all accesses are within its bounds.
                unsafe {
                    let start = HugePages.alloc_zeroed(layout);
                    assert_eq!(start.align_offset(align), 0);
                    let bytes = std::slice::from_raw_parts_mut(start, size);
                    assert!(bytes.iter().all(|byte| *byte == 0));
                    bytes[size - 1] = 7;
                    let start = HugePages.realloc(start, layout, 3 * size);
                    assert_eq!(*start.add(size - 1), 7);
                    let layout = Layout::from_size_align(3 * size, align).unwrap();
                    HugePages.dealloc(start, layout);
                    let start = HugePages.alloc(layout);
                    start.write_bytes(1, 3 * size);
                    HugePages.dealloc(start, layout);
                }
            }
        }
    }
}
