//! Counts what the tests of this binary allocate, thread by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

/// The system's allocator, with a look at every size.
struct Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    /// Allocated less freed by this thread; below zero if it frees what others allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST_HELD: Cell<isize> = const { Cell::new(0) };
}

fn note(allocated: usize, freed: usize) {
    // A thread that ends may allocate after its values are gone.
    let noted = LARGEST.try_with(|largest| largest.set(largest.get().max(allocated)));
    let held = HELD.try_with(|held| {
        held.set(held.get() + allocated as isize - freed as isize);
        held.get()
    });
    if let (Ok(()), Ok(held)) = (noted, held) {
        let _ = MOST_HELD.try_with(|most| most.set(most.get().max(held)));
    }
}

// SAFETY: every call goes to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: as required of the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size(), 0);
        // SAFETY: as required of the caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(0, layout.size());
        // SAFETY: as required of the caller.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size, layout.size());
        // SAFETY: as required of the caller.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// What a thread allocated while a function ran.
#[derive(Debug, Clone, Copy)]
pub struct Allocated {
    /// Bytes of the largest single allocation.
    pub largest: usize,
    /// The most bytes held at a time.
    pub most_held: usize,
}

/// Runs a function, and tells what this thread allocated for it.
pub fn measure<T>(run: impl FnOnce() -> T) -> (T, Allocated) {
    let before = HELD.get();
    LARGEST.set(0);
    MOST_HELD.set(before);
    let result = run();
    let allocated = Allocated {
        largest: LARGEST.get(),
        most_held: (MOST_HELD.get() - before).max(0) as usize,
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
