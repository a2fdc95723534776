//! TLS, with files that may change while connections last.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::options::TlsFiles;

/// Largest file of a certificate or key.
const FILE: u64 = 1 << 20;

/// The configuration that new connections get.
#[derive(Debug)]
pub(super) struct Tls {
    files: TlsFiles,
    current: ArcSwap<ServerConfig>,
}

/// When and how long the files were.
pub(super) type Stamp = [Option<(SystemTime, u64)>; 2];

impl Tls {
    pub(super) fn new(files: TlsFiles) -> Result<(Tls, Stamp), String> {
        let stamp = stamp(&files);
        let current = ArcSwap::from_pointee(load(&files)?);
        Ok((Tls { files, current }, stamp))
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.current.load_full()
    }

    /// Reads the files again if they are not those of `before`. Broken ones change nothing.
    pub(super) fn look(&self, before: &mut Stamp) {
        // Taken before the files are read: what changes meanwhile is read the next time.
        let now = stamp(&self.files);
        if now == *before {
            return;
        }
        *before = now;
        let certificate = self.files.certificate.display();
        match load(&self.files) {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!(%certificate, "the certificate was read again");
            }
            Err(error) => tracing::error!(%certificate, %error, "the certificate stays as it was"),
        }
    }
}

fn stamp(files: &TlsFiles) -> Stamp {
    [&files.certificate, &files.key].map(|path| {
        let found = fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    })
}

/// What connections are served with.
pub(super) fn load(files: &TlsFiles) -> Result<ServerConfig, String> {
    let chain = read(&files.certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", files.certificate.display()))?;
    if chain.is_empty() {
        return Err(format!(
            "{}: it holds no certificate",
            files.certificate.display()
        ));
    }
    let key = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&key)
        .map_err(|error| format!("{}: {error}", files.key.display()))?;
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| format!("{}: {error}", files.certificate.display()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let name = path.display();
    let length = fs::metadata(path)
        .map_err(|error| format!("{name}: {error}"))?
        .len();
    if length > FILE {
        return Err(format!("{name}: {length} bytes exceed {FILE} bytes"));
    }
    fs::read(path).map_err(|error| format!("{name}: {error}"))
}
