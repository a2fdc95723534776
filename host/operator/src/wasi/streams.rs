//! Streams of the inert world: they are always ready, stdin is at its end, output goes to the log.

use wasmtime::Result;
use wasmtime::component::Resource;
use wasmtime_wasi::p2::bindings::sync;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, StreamError, StreamResult};

use super::Inert;
use crate::shared::LINE_BYTES;

impl sync::io::streams::Host for Inert {
    fn convert_stream_error(
        &mut self,
        error: StreamError,
    ) -> Result<sync::io::streams::StreamError> {
        sync::io::streams::Host::convert_stream_error(&mut self.table, error)
    }
}

impl sync::io::streams::HostInputStream for Inert {
    fn read(&mut self, _stream: Resource<DynInputStream>, _length: u64) -> StreamResult<Vec<u8>> {
        Err(StreamError::Closed)
    }

    fn blocking_read(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<Vec<u8>> {
        Err(StreamError::Closed)
    }

    fn skip(&mut self, _stream: Resource<DynInputStream>, _length: u64) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn blocking_skip(&mut self, _: Resource<DynInputStream>, _: u64) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn subscribe(&mut self, _stream: Resource<DynInputStream>) -> Result<Resource<DynPollable>> {
        self.ready()
    }

    fn drop(&mut self, stream: Resource<DynInputStream>) -> Result<()> {
        self.table.delete(stream)?;
        Ok(())
    }
}

impl sync::io::streams::HostOutputStream for Inert {
    fn check_write(&mut self, _stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        Ok(LINE_BYTES as u64)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        Inert::write(self, &stream, &bytes)
    }

    fn blocking_write_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        Inert::write(self, &stream, &bytes)
    }

    fn blocking_write_zeroes_and_flush(
        &mut self,
        _stream: Resource<DynOutputStream>,
        _length: u64,
    ) -> StreamResult<()> {
        Ok(())
    }

    fn write_zeroes(&mut self, _: Resource<DynOutputStream>, _: u64) -> StreamResult<()> {
        Ok(())
    }

    fn flush(&mut self, _stream: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn blocking_flush(&mut self, _stream: Resource<DynOutputStream>) -> StreamResult<()> {
        Ok(())
    }

    fn splice(
        &mut self,
        _to: Resource<DynOutputStream>,
        _from: Resource<DynInputStream>,
        _length: u64,
    ) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn blocking_splice(
        &mut self,
        _to: Resource<DynOutputStream>,
        _from: Resource<DynInputStream>,
        _length: u64,
    ) -> StreamResult<u64> {
        Err(StreamError::Closed)
    }

    fn subscribe(&mut self, _stream: Resource<DynOutputStream>) -> Result<Resource<DynPollable>> {
        self.ready()
    }

    fn drop(&mut self, stream: Resource<DynOutputStream>) -> Result<()> {
        self.outputs.remove(&stream.rep());
        self.table.delete(stream)?;
        Ok(())
    }
}
