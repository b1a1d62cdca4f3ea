//! A global allocator that records what each thread of the test binary allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The system allocator, with every size recorded.
struct Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// Bytes that this thread allocated minus bytes that it freed. Negative if it freed memory of
    /// other threads.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MAX_HELD: Cell<isize> = const { Cell::new(0) };
}

fn note(allocated: usize, freed: usize) {
    // An exiting thread may still allocate after its thread-locals are destroyed.
    let noted = LARGEST.try_with(|largest| largest.set(largest.get().max(allocated)));
    let held = HELD.try_with(|held| {
        held.set(held.get() + allocated as isize - freed as isize);
        held.get()
    });
    if let (Ok(()), Ok(held)) = (noted, held) {
        let _ = MAX_HELD.try_with(|most| most.set(most.get().max(held)));
    }
}

// SAFETY: every call is forwarded to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: the caller upholds the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: the caller upholds the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The memory that a thread allocated while a function ran.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// Size of the largest single allocation in bytes.
    pub largest: usize,
    /// Maximum number of bytes held at the same time.
    pub most_held: usize,
}

/// Runs a function, and returns its result with the memory that this thread allocated for it.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, Allocated) {
    let before = HELD.get();
    LARGEST.set(0);
    MAX_HELD.set(before);
    let result = run();
    let allocated = Allocated {
        largest: LARGEST.get(),
        most_held: (MAX_HELD.get() - before).max(0) as usize,
    };
    (result, allocated)
}

#[test]
fn allocations_are_measured() {
    let (kept, allocated) = measure(|| {
        drop(vec![1u8; 3000]);
        vec![1u8; 2000]
    });
    assert_eq!(kept.len(), 2000);
    assert_eq!((allocated.largest, allocated.most_held), (3000, 3000));
}
