//! `tidegate model`.

mod admin;
mod bench;
mod convert;
mod found;
mod gguf;
mod held_out;
mod info;
mod plan;
mod source;

use clap::Subcommand;
use tidegate_infer::KvPrecision;

pub(crate) use self::admin::line;
use crate::exit::Failure;

/// What is done with models.
#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    Info(info::Arguments),
    Convert(convert::Arguments),
    Bench(bench::Arguments),
    Plan(plan::Arguments),
    Load(admin::Load),
    Unload(admin::Unload),
    List(admin::List),
}

/// Does what is said.
pub(crate) fn model(command: &ModelCommand) -> Result<(), Failure> {
    match command {
        ModelCommand::Info(arguments) => info::info(arguments),
        ModelCommand::Convert(arguments) => convert::convert(arguments),
        ModelCommand::Bench(arguments) => bench::bench(arguments),
        ModelCommand::Plan(arguments) => plan::plan(arguments),
        ModelCommand::Load(arguments) => admin::load(arguments),
        ModelCommand::Unload(arguments) => admin::unload(arguments),
        ModelCommand::List(arguments) => admin::list(arguments),
    }
}

/// How keys and values are kept, as a pipeline file says it.
fn kv_precision(text: &str) -> Result<KvPrecision, String> {
    KvPrecision::named(text).ok_or_else(|| {
        let known = KvPrecision::ALL.map(KvPrecision::name).join(", ");
        format!("{text:?} is not known; write one of {known}")
    })
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / (1 << 20) as f64;
    if mebibytes >= 1024.0 {
        format!("{:.2} GiB", mebibytes / 1024.0)
    } else {
        format!("{mebibytes:.2} MiB")
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_shown_in_the_unit_that_suits_them() {
        assert_eq!(size(3 << 19), "1.50 MiB");
        assert_eq!(size(5 << 29), "2.50 GiB");
    }
}
