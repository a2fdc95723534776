//! Keys that verify: of JSON Web Key Sets, PEM files, and secrets.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Map, Value};

use super::json;
use crate::access::options::Algorithm;

/// Shortest secret of HS256: as long as its digest (RFC 7518, 3.2).
const SECRET: usize = 32;

/// Most keys of a set.
const KEYS: usize = 64;

/// What comes before the point of a P-256 key (RFC 5480), and before the `RSAPublicKey` of an RSA key (RFC 3279).
const P256: &[u8] =
    b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";

/// A key, of one algorithm.
#[derive(Debug)]
pub(super) struct VerifyingKey {
    /// Its name in its set.
    pub(super) kid: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Secret(hmac::Key),
    /// Modulus and exponent.
    Rsa(Vec<u8>, Vec<u8>),
    /// An RSA key in DER.
    RsaDer(Vec<u8>),
    /// A point of P-256.
    Point(Vec<u8>),
}

impl VerifyingKey {
    /// A secret.
    pub(super) fn secret(secret: &[u8]) -> Result<VerifyingKey, String> {
        if secret.len() < SECRET {
            return Err(format!(
                "a secret of {} bytes is shorter than {SECRET}",
                secret.len()
            ));
        }
        Ok(VerifyingKey {
            kid: None,
            material: Material::Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)),
        })
    }

    /// Whether the signature is this key's.
    pub(super) fn verifies(&self, signed: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Secret(key) => hmac::verify(key, signed, signature).is_ok(),
            Material::Rsa(n, e) => RsaPublicKeyComponents { n, e }
                .verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
                .is_ok(),
            Material::RsaDer(der) => UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der)
                .verify(signed, signature)
                .is_ok(),
            Material::Point(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(signed, signature)
                .is_ok(),
        }
    }
}

/// Keys of a file: a set in JSON, or a public key in PEM. Those of other algorithms are passed over; one is left.
pub(super) fn of_file(bytes: &[u8], algorithm: Algorithm) -> Result<Vec<VerifyingKey>, String> {
    if bytes.trim_ascii_start().starts_with(b"{") {
        return of_set(bytes, algorithm, true);
    }
    let key = SubjectPublicKeyInfoDer::from_pem_slice(bytes).map_err(|_| {
        "it is neither a JSON Web Key Set nor a PEM file with a `PUBLIC KEY`".to_owned()
    })?;
    let point = bits(key.as_ref(), P256).filter(|point| point.len() == 65 && point[0] == 4);
    let material = match algorithm {
        Algorithm::Es256 => point.map(|point| Material::Point(point.to_vec())),
        Algorithm::Rs256 => bits(key.as_ref(), RSA).map(|der| Material::RsaDer(der.to_vec())),
        Algorithm::Hs256 => None,
    };
    let material =
        material.ok_or_else(|| format!("its public key is none of {}", algorithm.name()))?;
    Ok(vec![VerifyingKey {
        kid: None,
        material,
    }])
}

/// Keys of a set. `secrets` are not taken from places that anyone may read.
pub(super) fn of_set(
    bytes: &[u8],
    algorithm: Algorithm,
    secrets: bool,
) -> Result<Vec<VerifyingKey>, String> {
    let set = json::object(bytes).ok_or("it is no JSON object, or has a name twice")?;
    let Some(Value::Array(keys)) = set.get("keys") else {
        return Err("it has no list `keys`".to_owned());
    };
    if keys.len() > KEYS {
        return Err(format!("{} keys exceed {KEYS}", keys.len()));
    }
    let keys = keys.iter().filter_map(Value::as_object);
    let keys: Vec<_> = keys.filter_map(|key| of_json(key, algorithm)).collect();
    if keys.is_empty() {
        return Err(format!(
            "none of its keys is one to verify {}",
            algorithm.name()
        ));
    }
    if !secrets && algorithm == Algorithm::Hs256 {
        return Err("secrets are not taken from a URL".to_owned());
    }
    Ok(keys)
}

/// A JSON Web Key, if it verifies signatures of the algorithm.
pub(super) fn of_json(key: &Map<String, Value>, algorithm: Algorithm) -> Option<VerifyingKey> {
    let text = |name: &str| key.get(name).and_then(Value::as_str);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(text(name)?).ok();
    if key.contains_key("use") && text("use") != Some("sig") {
        return None;
    }
    if key.contains_key("alg") && text("alg") != Some(algorithm.name()) {
        return None;
    }
    if let Some(operations) = key.get("key_ops") {
        operations
            .as_array()?
            .iter()
            .find(|operation| *operation == "verify")?;
    }
    let material = match (algorithm, text("kty")?) {
        (Algorithm::Hs256, "oct") => {
            return Some(VerifyingKey {
                kid: kid(key)?,
                ..VerifyingKey::secret(&bytes("k")?).ok()?
            });
        }
        (Algorithm::Rs256, "RSA") => Material::Rsa(number(bytes("n")?), number(bytes("e")?)),
        (Algorithm::Es256, "EC") if text("crv") == Some("P-256") => {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == 32 && y.len() == 32)
                .then(|| Material::Point([&[4][..], &x, &y].concat()))?
        }
        _ => return None,
    };
    Some(VerifyingKey {
        kid: kid(key)?,
        material,
    })
}

/// The key's name, which is text if it is there.
fn kid(key: &Map<String, Value>) -> Option<Option<String>> {
    match key.get("kid") {
        None => Some(None),
        Some(kid) => Some(Some(kid.as_str()?.to_owned())),
    }
}

/// A number without the zeros before it, which ring does not take.
fn number(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    bytes
}

/// The key of a `SubjectPublicKeyInfo` with this algorithm: SEQUENCE { algorithm, BIT STRING }.
fn bits<'a>(der: &'a [u8], algorithm: &[u8]) -> Option<&'a [u8]> {
    let (inside, rest) = value(der, 0x30)?;
    let (string, after) = value(inside.strip_prefix(algorithm)?, 0x03)?;
    if !rest.is_empty() || !after.is_empty() {
        return None;
    }
    // No bits of the last byte are unused.
    string.strip_prefix(&[0])
}

/// The value of a DER element with this tag, and what comes after it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let der = der.strip_prefix(&[tag])?;
    let (first, der) = der.split_first()?;
    let (length, der) = match first {
        0..=0x7f => (usize::from(*first), der),
        0x81 | 0x82 => {
            let (length, der) = der.split_at_checked(usize::from(first & 0x7f))?;
            (
                length
                    .iter()
                    .fold(0, |length, byte| length << 8 | usize::from(*byte)),
                der,
            )
        }
        _ => return None,
    };
    der.split_at_checked(length)
}
