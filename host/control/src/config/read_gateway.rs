//! Reads `[gateway]`: where it listens, and what a connection and a request may take.

use std::net::SocketAddr;
use std::time::Duration;

use super::addresses::wrong_origin;
use super::findings::Typed;
use super::gateway::{GatewayLimits, Kept};
use super::read_gateway_access::{read_keys, read_tokens};
use super::reader::Table;
use super::typed::TypedGateway;

/// Where it listens unless the file says otherwise.
const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);

pub(crate) fn read_gateway(table: Table<'_>) -> TypedGateway {
    let usual = GatewayLimits::default();
    let times = Duration::from_millis(10)..=Duration::from_secs(24 * 3600);
    let time = |name, usual| {
        let typed = table.duration(name, "s", times.clone());
        typed.map_or(usual, |typed| typed.value)
    };
    let connections = table.count("max-connections", 1..=1_000_000);
    let most = (connections.as_ref()).map_or(usual.connections, |typed| typed.value);
    let per_address = table.count("max-connections-per-address", 1..=1_000_000);
    if let Some(per_address) = per_address.as_ref().filter(|typed| typed.value > most) {
        table.found.about(
            per_address,
            format!(
                "{} must not exceed max-connections, which is {most}",
                per_address.value
            ),
        );
    }
    let limits = GatewayLimits {
        connections: most,
        connections_per_address: per_address
            .map_or(usual.connections_per_address.min(most), |typed| typed.value),
        body: table
            .size("max-body", 1 << 10..=1 << 30)
            .map_or(usual.body, |typed| typed.value),
        header_deadline: time("header-deadline", usual.header_deadline),
        body_deadline: time("body-deadline", usual.body_deadline),
        write_deadline: time("write-deadline", usual.write_deadline),
        idle: time("idle", usual.idle),
        wrong_keys: table
            .number("wrong-keys-per-minute", 0..=1_000_000)
            .map_or(usual.wrong_keys, |typed| typed.value as u32),
    };
    let gateway = TypedGateway {
        place: table.place.clone(),
        address: read_address(&table),
        address_place: table.get("address").map(|value| value.place),
        certificate: table.string("certificate"),
        private_key: table.string("private-key"),
        origins: read_origins(&table),
        limits,
        keys: read_keys(&table),
        tokens: table.table("tokens").map(read_tokens),
        cache: table
            .table("cache")
            .map(|table| read_kept(table, Duration::from_secs(600))),
        idempotency: table.table("idempotency").map_or(
            Kept {
                ttl: Duration::from_secs(24 * 3600),
                bytes: 64 << 20,
            },
            |table| read_kept(table, Duration::from_secs(24 * 3600)),
        ),
        share_equal_requests: table
            .truth("share-equal-requests")
            .is_some_and(|typed| typed.value),
    };
    check_pair(&table, &gateway);
    table.finish();
    gateway
}

fn read_address(table: &Table<'_>) -> SocketAddr {
    let usual = SocketAddr::from(ADDRESS);
    let Some(typed) = table.string("address") else {
        return usual;
    };
    typed.value.parse().unwrap_or_else(|_| {
        table.found.about(
            &typed,
            format!(
                "{:?} is not an address with a port; write for example \"127.0.0.1:8080\"",
                typed.value
            ),
        );
        usual
    })
}

/// A certificate is of no use without its key, and a key without its certificate.
fn check_pair(table: &Table<'_>, gateway: &TypedGateway) {
    let (one, name, other) = match (&gateway.certificate, &gateway.private_key) {
        (Some(one), None) => (one, "private-key", "private-key = \"key.pem\""),
        (None, Some(one)) => (one, "certificate", "certificate = \"cert.pem\""),
        _ => return,
    };
    if table.get(name).is_none() {
        table
            .found
            .about(one, format!("is one half of TLS; write {other} too"));
    }
}

fn read_origins(table: &Table<'_>) -> Vec<String> {
    let fits = |origin: &Typed<String>| {
        if let Some(what) = wrong_origin(&origin.value) {
            table.found.about(origin, what);
        }
    };
    let origins = table.strings("origins").unwrap_or_default();
    origins.iter().for_each(fits);
    origins.into_iter().map(|typed| typed.value).collect()
}

fn read_kept(table: Table<'_>, ttl: Duration) -> Kept {
    let times = Duration::from_secs(1)..=Duration::from_secs(30 * 24 * 3600);
    let kept = Kept {
        ttl: table
            .duration("ttl", "s", times)
            .map_or(ttl, |typed| typed.value),
        bytes: table
            .size("bytes", 64 << 10..=1 << 36)
            .map_or(64 << 20, |typed| typed.value),
    };
    table.finish();
    kept
}
