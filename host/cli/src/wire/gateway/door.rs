//! Where the gateway listens, by what certificate, and for whom: looked at before a run begins, and taken when it does.

use std::sync::Arc;

use tidegate_control::config::{self, Mistake, Pipeline};
use tidegate_gateway::access::{AccessError, faults};
use tidegate_gateway::front::{Bound, Cors, FrontBounds, FrontOptions, TlsFiles};

use super::access::{TOKEN, access, options};
use crate::exit::Failure;
use crate::opening::Seen;

/// Looks at secrets, keys and certificates. No port is taken and nothing is fetched.
pub(crate) fn look(pipeline: &Pipeline, gateway: &config::Gateway, seen: &mut Seen) {
    for fault in faults(&options(gateway)) {
        match &fault {
            AccessError::Environment { name, variable } => seen.lacks(at(
                pipeline,
                gateway,
                name,
                format!(
                    "the environment variable {variable} is not set here, or empty; a run needs it"
                ),
            )),
            fault => {
                let place = fault.name().to_owned();
                seen.mistake(at(pipeline, gateway, &place, fault.to_string()));
            }
        }
    }
    if let Some(tls) = &gateway.tls
        && let Err(error) = files(tls).check()
    {
        seen.mistake(pipeline.mistake_of_tls(tls, error));
    }
    if let Some(error) = cors(gateway).and_then(|cors| cors.check().err()) {
        seen.mistake(pipeline.mistake_of_gateway(gateway, error));
    }
}

/// Takes the address, with all that is needed to answer there. Blocks while the keys of tokens are fetched.
pub(crate) fn bind(gateway: &config::Gateway) -> Result<Bound, Failure> {
    let options = FrontOptions {
        tls: gateway.tls.as_ref().map(files),
        cors: cors(gateway),
        bounds: bounds(&gateway.limits),
        ..FrontOptions::new(gateway.address, Arc::new(access(gateway)?))
    };
    Bound::new(options).map_err(Failure::usage)
}

/// A mistake at the line of a key, or of the tokens.
fn at(pipeline: &Pipeline, gateway: &config::Gateway, name: &str, what: String) -> Mistake {
    let key = gateway.keys.iter().find(|key| key.name == name);
    match (key, &gateway.tokens) {
        (Some(key), _) => pipeline.mistake_of_key(key, what),
        (None, Some(tokens)) if name == TOKEN => pipeline.mistake_of_tokens(tokens, what),
        _ => pipeline.mistake_of_gateway(gateway, what),
    }
}

fn files(tls: &config::GatewayTls) -> TlsFiles {
    TlsFiles {
        certificate: tls.certificate.clone(),
        key: tls.private_key.clone(),
    }
}

fn cors(gateway: &config::Gateway) -> Option<Cors> {
    (!gateway.origins.is_empty()).then(|| Cors {
        origins: gateway.origins.clone(),
        credentials: false,
    })
}

fn bounds(limits: &config::GatewayLimits) -> FrontBounds {
    let usual = FrontBounds::default();
    FrontBounds {
        connections: limits.connections,
        connections_of_a_peer: limits.connections_per_address,
        head_time: limits.header_deadline,
        body_time: limits.body_deadline,
        write_time: limits.write_deadline,
        idle: limits.idle,
        // At least one body of the greatest length must fit.
        bodies: usual.bodies.max(limits.body),
        ..usual
    }
}
