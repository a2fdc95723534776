//! The filter of the boundary bench: a record whose eleventh byte is odd is dropped.

use fluvio_smartmodule::{smartmodule, Result, SmartModuleRecord};

#[smartmodule(filter)]
pub fn filter(record: &SmartModuleRecord) -> Result<bool> {
    let value: &[u8] = record.value.as_ref();
    Ok(value.get(10).is_none_or(|byte| byte % 2 == 0))
}
