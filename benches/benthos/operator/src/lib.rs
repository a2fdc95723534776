//! The filter and the echo of the boundary bench, as Benthos has modules in Rust
//! (https://github.com/benthosdev/benthos/tree/v4.27.0/public/wasm): a function is called for each message, and asks for it.

#[link(wasm_import_module = "benthos_wasm")]
unsafe extern "C" {
    fn v0_msg_as_bytes() -> u64;
    fn v0_msg_set_bytes(at: *const u8, length: usize);
    fn v0_msg_set_meta(key: *const u8, key_length: usize, value: *const u8, length: usize);
}

/// The bytes of the message. The host has written them into what it took by `allocate`, and leaves them to the module.
fn message() -> Box<[u8]> {
    // SAFETY: the address is above, the length below, and nobody else frees it.
    unsafe {
        let place = v0_msg_as_bytes();
        let at = (place >> 32) as usize as *mut u8;
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(
            at,
            place as u32 as usize,
        ))
    }
}

/// Bytes that are the host's from here on: it frees them by `deallocate`.
fn given(bytes: Box<[u8]>) -> (*const u8, usize) {
    let length = bytes.len();
    (Box::into_raw(bytes).cast::<u8>(), length)
}

#[unsafe(no_mangle)]
pub extern "C" fn filter() {
    let kept: &[u8] = match message().get(10) {
        Some(byte) if byte % 2 == 1 => b"0",
        _ => b"1",
    };
    let ((key, key_length), (value, length)) = (given((*b"kept").into()), given(kept.into()));
    // SAFETY: both are whole, and the host's.
    unsafe { v0_msg_set_meta(key, key_length, value, length) };
}

#[unsafe(no_mangle)]
pub extern "C" fn echo() {
    let (at, length) = given(message());
    // SAFETY: it is whole, and the host's.
    unsafe { v0_msg_set_bytes(at, length) };
}

#[unsafe(no_mangle)]
pub extern "C" fn allocate(size: u32) -> *mut u8 {
    Box::into_raw(vec![0u8; size as usize].into_boxed_slice()).cast()
}

/// # Safety
/// It is what `allocate` gave for this size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn deallocate(at: *mut u8, size: u32) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(at, size as usize)) });
}
