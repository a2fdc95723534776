//! The filter and the echo of the boundary bench: over one value, and over a batch of values, each after its length (4
//! bytes, little-endian). A filter answers a byte for each value: 1 for one that stays.

#![no_main]

use extism_pdk::{FnResult, plugin_fn};

fn stays(value: &[u8]) -> u8 {
    u8::from(value.get(10).is_none_or(|byte| byte % 2 == 0))
}

/// Takes a value after its length off the front.
fn next<'a>(batch: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = batch.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *batch = rest;
    Some(value)
}

#[plugin_fn]
pub fn filter(value: Vec<u8>) -> FnResult<Vec<u8>> {
    Ok(vec![stays(&value)])
}

#[plugin_fn]
pub fn echo(value: Vec<u8>) -> FnResult<Vec<u8>> {
    Ok(value)
}

#[plugin_fn]
pub fn filter_batch(batch: Vec<u8>) -> FnResult<Vec<u8>> {
    let mut batch = batch.as_slice();
    Ok(std::iter::from_fn(|| next(&mut batch)).map(stays).collect())
}

#[plugin_fn]
pub fn echo_batch(batch: Vec<u8>) -> FnResult<Vec<u8>> {
    let (mut from, mut answer) = (batch.as_slice(), Vec::with_capacity(batch.len()));
    while let Some(value) = next(&mut from) {
        answer.extend_from_slice(&(value.len() as u32).to_le_bytes());
        answer.extend_from_slice(value);
    }
    Ok(answer)
}
