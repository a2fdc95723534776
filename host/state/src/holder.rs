//! Who holds a file's lock, where the system tells.

use std::fs::File;

/// Number of the process that holds the lock of this file. Linux lists locks by device and inode.
#[cfg(target_os = "linux")]
pub(crate) fn holder(file: &File) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    let facts = file.metadata().ok()?;
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    find(&locks, device(facts.dev()), facts.ino())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn holder(_file: &File) -> Option<u32> {
    None
}

/// Major and minor number, as the C library packs them.
#[cfg(target_os = "linux")]
fn device(packed: u64) -> (u64, u64) {
    let major = (packed >> 8 & 0xfff) | (packed >> 32 & !0xfff);
    let minor = (packed & 0xff) | (packed >> 12 & !0xff);
    (major & 0xffff_ffff, minor & 0xffff_ffff)
}

/// `1: FLOCK  ADVISORY  WRITE 24579 fe:00:9986068 0 EOF`; those who wait have `->` behind the number.
#[cfg(target_os = "linux")]
fn find(locks: &str, device: (u64, u64), inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != "FLOCK" {
            return None;
        }
        let process = words.nth(2)?;
        let mut place = words.next()?.split(':');
        let mut hexadecimal = || u64::from_str_radix(place.next()?, 16).ok();
        let found = (hexadecimal()?, hexadecimal()?);
        let same = found == device && place.next()?.parse() == Ok(inode);
        same.then(|| process.parse().ok()).flatten()
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let locks = "1: POSIX  ADVISORY  READ  11 fe:00:77 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 12 fe:01:77 0 EOF\n\
            3: FLOCK  ADVISORY  WRITE 13 fe:00:77 0 EOF\n\
            3: -> FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n\
            something else\n";
        assert_eq!(find(locks, (0xfe, 0), 77), Some(13));
        assert_eq!(find(locks, (0xfe, 1), 77), Some(12));
        assert_eq!(find(locks, (0xfe, 0), 78), None);
        assert_eq!(find("", (0, 0), 0), None);
        assert_eq!(device(0xfe00), (0xfe, 0));
        assert_eq!(device(0x0010_2345), (0x23, 0x145));
    }
}
