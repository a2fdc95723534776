//! A batch on its way into a guest: written straight into the guest's memory, without what the operator does not read.

use std::mem::MaybeUninit;

use tidegate_record::Excerpt;
use wasmtime::component::__internal::{
    CanonicalAbiInfo, InstanceType, InterfaceType, LowerContext,
};
use wasmtime::component::{ComponentType, Lower};
use wasmtime::{Result, ValRaw};

/// A `list<u8>` that is made where it is needed.
pub(crate) struct Arena<'a>(pub(crate) Excerpt<'a>);

impl Arena<'_> {
    /// Has the guest make room and writes the arena there: its address and length.
    fn place<T>(&self, cx: &mut LowerContext<'_, T>) -> Result<(u32, u32)> {
        let length = self.0.len();
        let address = cx.realloc(0, 0, 1, length)?;
        // `realloc` has checked that these bytes lie in the guest's memory.
        let end = address.saturating_add(length);
        let memory = cx.as_slice_mut().get_mut(address..end);
        self.0.write(
            memory.ok_or_else(|| wasmtime::format_err!("realloc return: beyond end of memory"))?,
        );
        Ok((u32::try_from(address)?, u32::try_from(length)?))
    }
}

// SAFETY: type, layout and check are those of a list of bytes.
#[allow(unsafe_code)]
unsafe impl ComponentType for Arena<'_> {
    type Lower = <[u8] as ComponentType>::Lower;

    const ABI: CanonicalAbiInfo = <[u8] as ComponentType>::ABI;

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> Result<()> {
        <[u8] as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: what is lowered is an address and a length of bytes that lie in the guest's memory; both words are written
// whole, as those of a list of bytes are.
#[allow(unsafe_code)]
unsafe impl Lower for Arena<'_> {
    fn linear_lower_to_flat<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        _: InterfaceType,
        dst: &mut MaybeUninit<Self::Lower>,
    ) -> Result<()> {
        let (address, length) = self.place(cx)?;
        dst.write([
            ValRaw::i64(i64::from(address)),
            ValRaw::i64(i64::from(length)),
        ]);
        Ok(())
    }

    fn linear_lower_to_memory<T>(
        &self,
        cx: &mut LowerContext<'_, T>,
        _: InterfaceType,
        offset: usize,
    ) -> Result<()> {
        let (address, length) = self.place(cx)?;
        *cx.get(offset) = address.to_le_bytes();
        *cx.get(offset + 4) = length.to_le_bytes();
        Ok(())
    }
}
