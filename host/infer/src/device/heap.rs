//! The process's heap, which is the memory of a software adapter.

/// Bytes from which a block has pages of its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: i32 = 1 << 20;

/// From now on large blocks have pages of their own, which go back to the system when they are freed.
///
/// A software adapter takes a model's matrices, and what is staged for them, from the heap. glibc takes a freed block's length
/// for what is usual from then on, up to 32 MiB, and puts what is shorter among all else: matrices then lie between what was
/// staged for others, whose place nothing fits into any more. A model of 1B in q4_0 took 1.15 GB so, and takes 0.95.
pub(super) fn give_back_large_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: both set a number each, which may be any. Other threads may read it while they allocate; glibc itself sets both
    // beside them where a block is freed, which ends here.
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
        // What glibc does of itself: twice as much may lie unused at the heap's end.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE);
    }
}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::process::Command;

    use super::*;

    /// Bytes by which glibc describes a block that has pages of its own, in front of it.
    const BEFORE: usize = 16;
    /// Set for the process that is the test.
    const ALONE: &str = "TIDEGATE_TEST_HEAP";
    const NAME: &str =
        "device::heap::tests::a_large_block_has_pages_of_its_own_whatever_was_freed_before";

    /// In a process of its own: whatever other tests have left in the heap may have room for a block.
    #[test]
    fn a_large_block_has_pages_of_its_own_whatever_was_freed_before() {
        if std::env::var_os(ALONE).is_none() {
            let mut alone = Command::new(std::env::current_exe().unwrap());
            alone.args(["--exact", NAME]).env(ALONE, "1");
            let output = alone.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{said}");
            assert!(said.contains("1 passed"), "{said}");
            return;
        }
        give_back_large_blocks();
        drop(vec![1_u8; 16 << 20]);
        let blocks: Vec<Vec<u8>> = (0..8).map(|_| vec![1; 2 << 20]).collect();
        for block in &blocks {
            assert_eq!(block.as_ptr().addr() % 4096, BEFORE);
        }
    }
}
