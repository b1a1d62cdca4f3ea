//! [`HugePages`], a global allocator that asks Linux for huge pages.

use std::alloc::{GlobalAlloc, Layout, System};

/// The minimum size in bytes of an allocation that asks for huge pages.
const LARGE: usize = 4 << 20;

/// The system allocator. It asks Linux for huge pages for allocations of at least 4 MiB.
///
/// An aggregate with a million groups allocates buffers of this size and uses each of them once. With
/// pages of 4 KiB, the first touch of every page takes up to a fifth of such a query in a virtual
/// machine. `tet-sql` and the Python package use this allocator. You can use it in your own program, as
/// below. It has no effect on other systems, or where `/sys/kernel/mm/transparent_hugepage/enabled` is
/// `never`. Memory that is allocated but only partly used counts in units of 2 MiB.
///
/// ```
/// #[global_allocator]
/// static ALLOCATOR: tet_sql::HugePages = tet_sql::HugePages;
/// # fn main() {}
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HugePages;

/// Asks for huge pages for the pages of an allocation.
fn advise(start: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    if size >= LARGE && !start.is_null() {
        // SAFETY: the call has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        // Whole pages, because `realloc` copies a mapping of which only a part is advised.
        let before = start.addr() % page;
        let length = (before + size).next_multiple_of(page);
        // SAFETY: the range consists of the pages of the allocation. Advice changes no contents, and a neighbour
        // on the first or last page gets the same advice.
        unsafe {
            libc::madvise(
                start.wrapping_sub(before).cast(),
                length,
                libc::MADV_HUGEPAGE,
            )
        };
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
                    assert!(!start.is_null());
                    assert_eq!(start.align_offset(align), 0);
                    let bytes = std::slice::from_raw_parts_mut(start, size);
                    assert!(bytes.iter().all(|byte| *byte == 0));
                    bytes[size - 1] = 7;
                    let start = HugePages.realloc(start, layout, 3 * size);
                    assert!(!start.is_null());
                    assert_eq!(*start.add(size - 1), 7);
                    let layout = Layout::from_size_align(3 * size, align).unwrap();
                    HugePages.dealloc(start, layout);
                    let start = HugePages.alloc(layout);
                    assert!(!start.is_null());
                    start.write_bytes(1, 3 * size);
                    HugePages.dealloc(start, layout);
                }
            }
        }
    }
}
