//! The inert WASI world: what toolchains import by themselves, with nothing behind it.
//!
//! Environment and arguments are empty, no directory is open, there is no network and stdin is at its end. Lines on
//! stdout and stderr go to the slot's log under its bounds. Clocks stand at the batch's clock; a sleep moves them and
//! returns at once, and whatever else can be waited for is ready: a guest cannot block the worker's thread in the host.
//! Randomness is a function of component, slot and batch, so that the same batch gets the same answer again; it keeps no
//! secret.

mod clock;
mod lines;
mod streams;

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wasmtime::component::{HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{Result, bail};
use wasmtime_wasi::p2::bindings::{cli, clocks, random, sockets, sync};
use wasmtime_wasi::p2::pipe::{ClosedInputStream, ClosedOutputStream};
use wasmtime_wasi::p2::{
    DynInputStream, DynOutputStream, DynPollable, SocketError, SocketResult, StreamError,
    StreamResult, subscribe,
};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use self::clock::Clock;
use self::lines::Lines;
use crate::host::Host;
use crate::last_words::LastWords;
use crate::listener::Level;
use crate::shared::{LINE_BYTES, Shared};

/// How severe lines of the two outputs are; they are told apart by it.
const STDOUT: Level = Level::Info;
const STDERR: Level = Level::Warn;
/// Handles a guest may hold at a time.
const HANDLES: usize = 1024;
/// Bytes of randomness a guest may ask for at a time.
const RANDOM_BYTES: u64 = 64 << 10;

/// Interfaces of WASI 0.2 that every operator may import, since nothing is behind them.
const INTERFACES: [&str; 27] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
    "wasi:sockets/instance-network",
    "wasi:sockets/ip-name-lookup",
    "wasi:sockets/network",
    "wasi:sockets/tcp",
    "wasi:sockets/tcp-create-socket",
    "wasi:sockets/udp",
    "wasi:sockets/udp-create-socket",
];

/// Whether this import is part of the inert world.
pub(crate) fn is_inert(import: &str) -> bool {
    import
        .split_once('@')
        .is_some_and(|(name, version)| INTERFACES.contains(&name) && version.starts_with("0.2."))
}

/// What one instance has of the inert world.
pub(crate) struct Inert {
    context: WasiCtx,
    table: ResourceTable,
    shared: Arc<Shared>,
    /// The output streams that exist, by handle.
    outputs: HashMap<u32, Level>,
    clock: Clock,
    /// What stdout and stderr have begun.
    lines: [Lines; 2],
    /// What the running call has written to stderr.
    last_words: LastWords,
    seed: [u8; 32],
    random: Random,
}

struct Random {
    seed: [u8; 32],
    drawn: u64,
}

impl Inert {
    pub(crate) fn new(shared: Arc<Shared>, seed: [u8; 32], clock: i64) -> Inert {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        let context = WasiCtx::builder()
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .build();
        Inert {
            context,
            table,
            shared,
            outputs: HashMap::new(),
            clock: Clock::new(clock),
            lines: [Lines::new(STDOUT), Lines::new(STDERR)],
            last_words: LastWords::default(),
            seed,
            random: Random { seed, drawn: 0 },
        }
    }

    /// See [`Host::begin`].
    pub(crate) fn begin(&mut self, clock: i64, mark: u64) {
        self.clock.begin(clock);
        self.last_words.clear();
        let mut hash = Sha256::new();
        hash.update(self.seed);
        hash.update(clock.to_le_bytes());
        hash.update(mark.to_le_bytes());
        self.random = Random {
            seed: hash.finalize().into(),
            drawn: 0,
        };
    }

    fn ready(&mut self) -> Result<Resource<DynPollable>> {
        let ready = self.table.push(ClosedInputStream)?;
        subscribe(&mut self.table, ready)
    }

    fn output(&mut self, level: Level) -> Result<Resource<DynOutputStream>> {
        let stream: DynOutputStream = Box::new(ClosedOutputStream);
        let handle = self.table.push(stream)?;
        self.outputs.insert(handle.rep(), level);
        Ok(handle)
    }

    fn write(&mut self, stream: &Resource<DynOutputStream>, bytes: &[u8]) -> StreamResult<()> {
        if bytes.len() > LINE_BYTES {
            // As WASI has it: nobody may write more than `check-write` allows. Lines are work for the host.
            return Err(StreamError::trap("more written at once than is allowed"));
        }
        let level = self.outputs.get(&stream.rep()).copied();
        let lines = self.lines.iter_mut().find(|of| Some(of.level) == level);
        let lines = lines.ok_or(StreamError::Closed)?;
        lines.write(bytes, &self.shared);
        if lines.level == STDERR {
            self.last_words.write(bytes);
        }
        Ok(())
    }

    /// The end of what the last call has written to stderr: a traceback, if it failed.
    pub(crate) fn last_words(&self) -> &LastWords {
        &self.last_words
    }

    /// The n-th block is the hash of seed and n.
    fn random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        if length > RANDOM_BYTES {
            bail!("{length} random bytes asked for at once, limit {RANDOM_BYTES}");
        }
        let mut bytes = Vec::with_capacity(length as usize + 32);
        while (bytes.len() as u64) < length {
            let mut hash = Sha256::new();
            hash.update(self.random.seed);
            hash.update(self.random.drawn.to_le_bytes());
            self.random.drawn += 1;
            bytes.extend_from_slice(&hash.finalize());
        }
        bytes.truncate(length as usize);
        Ok(bytes)
    }

    fn random_u64(&mut self) -> Result<u64> {
        let bytes = self.random_bytes(8)?;
        Ok(bytes.iter().fold(0, |n, &byte| (n << 8) | u64::from(byte)))
    }
}

impl Drop for Inert {
    fn drop(&mut self) {
        for lines in &mut self.lines {
            lines.end(&self.shared);
        }
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let inert = self.inert();
        WasiCtxView {
            ctx: &mut inert.context,
            table: &mut inert.table,
        }
    }
}

/// Links the inert world: wasmtime's WASI for what is empty in it, and the interfaces below in place of those that
/// would wait, tell the time, draw randomness or open sockets.
pub(crate) fn link(linker: &mut Linker<Host>) -> Result<()> {
    type Own = HasSelf<Inert>;
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    clocks::wall_clock::add_to_linker::<Host, Own>(linker, Host::inert)?;
    clocks::monotonic_clock::add_to_linker::<Host, Own>(linker, Host::inert)?;
    random::random::add_to_linker::<Host, Own>(linker, Host::inert)?;
    random::insecure::add_to_linker::<Host, Own>(linker, Host::inert)?;
    random::insecure_seed::add_to_linker::<Host, Own>(linker, Host::inert)?;
    cli::stdin::add_to_linker::<Host, Own>(linker, Host::inert)?;
    cli::stdout::add_to_linker::<Host, Own>(linker, Host::inert)?;
    cli::stderr::add_to_linker::<Host, Own>(linker, Host::inert)?;
    sync::io::poll::add_to_linker::<Host, Own>(linker, Host::inert)?;
    sync::io::streams::add_to_linker::<Host, Own>(linker, Host::inert)?;
    sockets::tcp_create_socket::add_to_linker::<Host, Own>(linker, Host::inert)?;
    sync::sockets::udp_create_socket::add_to_linker::<Host, Own>(linker, Host::inert)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl random::random::Host for Inert {
    fn get_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_random_u64(&mut self) -> Result<u64> {
        self.random_u64()
    }
}

impl random::insecure::Host for Inert {
    fn get_insecure_random_bytes(&mut self, length: u64) -> Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_insecure_random_u64(&mut self) -> Result<u64> {
        self.random_u64()
    }
}

impl random::insecure_seed::Host for Inert {
    fn insecure_seed(&mut self) -> Result<(u64, u64)> {
        Ok((self.random_u64()?, self.random_u64()?))
    }
}

impl cli::stdin::Host for Inert {
    fn get_stdin(&mut self) -> Result<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(ClosedInputStream);
        Ok(self.table.push(stream)?)
    }
}

impl cli::stdout::Host for Inert {
    fn get_stdout(&mut self) -> Result<Resource<DynOutputStream>> {
        self.output(STDOUT)
    }
}

impl cli::stderr::Host for Inert {
    fn get_stderr(&mut self) -> Result<Resource<DynOutputStream>> {
        self.output(STDERR)
    }
}

impl sockets::network::Host for Inert {
    fn convert_error_code(&mut self, error: SocketError) -> Result<sockets::network::ErrorCode> {
        error.downcast()
    }

    fn network_error_code(
        &mut self,
        _error: Resource<wasmtime::Error>,
    ) -> Result<Option<sockets::network::ErrorCode>> {
        Ok(None)
    }
}

impl sockets::network::HostNetwork for Inert {
    fn drop(&mut self, network: Resource<sockets::network::Network>) -> Result<()> {
        self.table.delete(network)?;
        Ok(())
    }
}

impl sockets::tcp_create_socket::Host for Inert {
    fn create_tcp_socket(
        &mut self,
        _family: sockets::network::IpAddressFamily,
    ) -> SocketResult<Resource<sockets::tcp::TcpSocket>> {
        Err(sockets::network::ErrorCode::AccessDenied.into())
    }
}

impl sync::sockets::udp_create_socket::Host for Inert {
    fn create_udp_socket(
        &mut self,
        _family: sockets::network::IpAddressFamily,
    ) -> SocketResult<Resource<sockets::udp::UdpSocket>> {
        Err(sockets::network::ErrorCode::AccessDenied.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_and_handles_are_bounded() {
        let shared = Arc::new(Shared::new("test".into()));
        let mut inert = Inert::new(shared, [0; 32], 0);
        assert_eq!(inert.random_bytes(RANDOM_BYTES).unwrap().len(), 64 << 10);
        let error = inert.random_bytes(u64::MAX).unwrap_err();
        assert_eq!(
            error.to_string(),
            "18446744073709551615 random bytes asked for at once, limit 65536"
        );
        let taken = (0..2 * HANDLES).take_while(|_| inert.table.push(0u8).is_ok());
        assert_eq!(taken.count(), HANDLES);
    }
}
