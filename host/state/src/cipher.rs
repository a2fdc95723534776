//! Encryption of the in-flight set: XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03) with a random nonce for each entry.

use std::fmt;

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use tidegate_contract::EntryCipher;

const NONCE: usize = 24;

/// The key that in-flight entries are encrypted with, 32 bytes.
#[derive(Clone)]
pub struct StateKey([u8; 32]);

impl StateKey {
    /// A new random key.
    pub fn random() -> Result<StateKey, getrandom::Error> {
        let mut key = [0; 32];
        getrandom::fill(&mut key)?;
        Ok(StateKey(key))
    }

    /// The key of 64 hexadecimal digits, or none if it is anything else.
    pub fn from_hex(text: &str) -> Option<StateKey> {
        let text = text.trim().as_bytes();
        if text.len() != 64 {
            return None;
        }
        let mut key = [0; 32];
        for (byte, digits) in key.iter_mut().zip(text.chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(StateKey(key))
    }

    /// The key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl EntryCipher for StateKey {
    /// Nonce and tag are part of the result.
    fn seal(&self, name: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).ok()?;
        let payload = Payload {
            msg: plain,
            aad: name,
        };
        let sealed = XChaCha20Poly1305::new(&self.0.into())
            .encrypt(&XNonce::from(nonce), payload)
            .ok()?;
        let mut bytes = nonce.to_vec();
        bytes.extend_from_slice(&sealed);
        Some(bytes)
    }

    fn open(&self, name: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
        let payload = Payload {
            msg: sealed,
            aad: name,
        };
        XChaCha20Poly1305::new(&self.0.into())
            .decrypt(&XNonce::from(*nonce), payload)
            .ok()
    }

    /// The tag of an empty text under a nonce of its own: a pseudorandom function of the key.
    fn fingerprint(&self) -> String {
        let payload = Payload {
            msg: b"",
            aad: b"fingerprint of a Tidegate state key",
        };
        let tag =
            XChaCha20Poly1305::new(&self.0.into()).encrypt(&XNonce::from([0xff; NONCE]), payload);
        let tag = tag.unwrap_or_default();
        tag.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Debug for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateKey(..)")
    }
}
