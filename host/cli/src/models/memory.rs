//! How much memory there is for models, where that can be known.

use std::path::Path;

use tidegate_infer::{AdapterInfo, AdapterKind};

/// Bytes that models may take on an adapter at this moment: on a software adapter what this process may still use. Drivers of
/// GPUs do not tell.
pub(crate) fn available_memory(adapter: &AdapterInfo) -> Option<u64> {
    if adapter.kind != AdapterKind::Software {
        return None;
    }
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = in_machine(&machine)?;
    Some(machine.min(in_container(Path::new("/sys/fs/cgroup")).unwrap_or(u64::MAX)))
}

/// Bytes of memory that the machine, or this process's container, has at all.
pub(crate) fn whole_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok()?;
    let machine = bytes(field(&machine, "MemTotal:")?)?;
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|limit| limit.trim().parse().ok());
    Some(machine.min(limit.unwrap_or(u64::MAX)))
}

/// What the kernel says may be used without swapping (`proc_meminfo(5)`).
fn in_machine(meminfo: &str) -> Option<u64> {
    bytes(field(meminfo, "MemAvailable:")?)
}

/// `1048576 kB`.
fn bytes(text: &str) -> Option<u64> {
    let kibibytes: u64 = text.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1 << 10)
}

/// What a container's limit leaves: version 2 of control groups, seen from inside. Files that are cached and not in use
/// count as used there, and give way.
fn in_container(group: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let cached: u64 = field(&read("memory.stat")?, "inactive_file ")?
        .parse()
        .ok()?;
    Some(limit.saturating_sub(used.saturating_sub(cached)))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_what_its_kernel_says() {
        let text = "MemTotal:       24576000 kB\nMemAvailable:    1048576 kB\n";
        assert_eq!(in_machine(text), Some(1 << 30));
        assert_eq!(in_machine("MemTotal: 1 kB\n"), None);
        assert_eq!(in_machine("MemAvailable: many kB\n"), None);
    }

    #[test]
    fn a_container_has_what_its_limit_leaves() {
        let group = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(group.path().join(name), text).unwrap();
        assert_eq!(in_container(group.path()), None);
        write("memory.current", "3000\n");
        write("memory.stat", "anon 100\ninactive_file 1000\n");
        write("memory.max", "max\n");
        assert_eq!(in_container(group.path()), None, "no limit");
        write("memory.max", "8000\n");
        assert_eq!(in_container(group.path()), Some(6000));
        write("memory.max", "1000\n");
        assert_eq!(in_container(group.path()), Some(0));
    }
}
