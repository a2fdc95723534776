//! The process itself, by the names that Prometheus's client libraries give it. Linux tells; elsewhere nothing does.

use std::fs;
use std::sync::LazyLock;
use std::time::SystemTime;

use tidegate_telemetry::metrics::{Exposition, table};

/// Parts of a second in which Linux tells times to programs, on every architecture.
const TICKS: f64 = 100.0;

/// When the process began: looked at before anything is counted.
pub(crate) static BEGAN: LazyLock<SystemTime> = LazyLock::new(SystemTime::now);

/// What the process takes, and whether its pipeline runs.
pub(crate) fn process(exposition: &mut Exposition, pipeline: &str, ready: bool) {
    let version = env!("CARGO_PKG_VERSION");
    exposition.add(&table::BUILD, &[version, pipeline], true);
    exposition.add(&table::READY, &[], ready);
    if let Some(stat) = fs::read_to_string("/proc/self/stat")
        .ok()
        .and_then(|text| Stat::parse(&text))
    {
        exposition.add(&table::PROCESS_CPU, &[], stat.cpu / TICKS);
        exposition.add(&table::PROCESS_VIRTUAL, &[], stat.virtual_bytes);
        let boot = fs::read_to_string("/proc/stat").ok();
        if let Some(boot) = boot.and_then(|text| number_after(&text, "btime")) {
            let start = boot as f64 + stat.started / TICKS;
            exposition.add(&table::PROCESS_START, &[], start);
        }
    }
    let status = fs::read_to_string("/proc/self/status").ok();
    if let Some(kibibytes) = status.and_then(|text| number_after(&text, "VmRSS:")) {
        exposition.add(&table::PROCESS_MEMORY, &[], kibibytes << 10);
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // The directory that is being read is one of them.
        let open = files.count().saturating_sub(1);
        exposition.add(&table::PROCESS_FILES, &[], open);
    }
    let limits = fs::read_to_string("/proc/self/limits").ok();
    if let Some(most) = limits.and_then(|text| number_after(&text, "Max open files")) {
        exposition.add(&table::PROCESS_FILES_MAX, &[], most);
    }
}

/// The number after the name that a line begins with.
fn number_after(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

struct Stat {
    cpu: f64,
    started: f64,
    virtual_bytes: u64,
}

impl Stat {
    /// `proc_pid_stat(5)`: fields 14, 15, 22 and 23. The second is the program's name, which may have anything in it.
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
        Some(Stat {
            cpu: (number(14)? + number(15)?) as f64,
            started: number(22)? as f64,
            virtual_bytes: number(23)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_may_have_any_name() {
        let text = "7 (a ) b) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 3 0 900 4096 10 18446744073709551615";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            (stat.cpu, stat.started, stat.virtual_bytes),
            (300.0, 900.0, 4096)
        );
        assert!(Stat::parse("7 (x) S 1").is_none());
        assert_eq!(number_after("a 1\nbtime 17 x\n", "btime"), Some(17));
    }
}
