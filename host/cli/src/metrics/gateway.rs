//! The gateway.

use std::sync::Arc;

use tidegate_gateway::front::Times;
use tidegate_telemetry::metrics::{Exposition, table};

/// What the gateway has answered and refused, how long that took, and what load has done.
pub(crate) struct GatewayNow {
    /// Requests that wait.
    pub(crate) waiting: usize,
    /// By endpoint and status.
    pub(crate) answered: Vec<(&'static str, u16, u64)>,
    /// By endpoint.
    pub(crate) broken: Vec<(&'static str, u64)>,
    /// By endpoint.
    pub(crate) times: Vec<(&'static str, Arc<Times>)>,
    /// By reason.
    pub(crate) refused: Vec<(&'static str, u64)>,
    /// By source and step.
    pub(crate) shed: Vec<(String, String, u64)>,
}

/// Hands in what the gateway counts.
pub(crate) fn gateway(exposition: &mut Exposition, now: &GatewayNow) {
    exposition.add(&table::GATEWAY_WAITING, &[], now.waiting);
    for (endpoint, status, count) in &now.answered {
        let labels = [*endpoint, &status.to_string()];
        exposition.add(&table::GATEWAY_REQUESTS, &labels, *count);
    }
    for (endpoint, times) in &now.times {
        exposition.add(&table::GATEWAY_RUNNING, &[endpoint], times.under_way.get());
        exposition.add(&table::GATEWAY_SECONDS, &[endpoint], times.seconds.spread());
        exposition.add(
            &table::GATEWAY_FIRST_BYTE,
            &[endpoint],
            times.first_byte.spread(),
        );
        // There before the first one breaks: a rate is of what was there.
        let broken = now.broken.iter().find(|(of, _)| of == endpoint);
        let broken = broken.map_or(0, |(_, count)| *count);
        exposition.add(&table::GATEWAY_BROKEN, &[endpoint], broken);
    }
    for (reason, count) in &now.refused {
        exposition.add(&table::GATEWAY_REFUSED, &[reason], *count);
    }
    for (source, step, count) in &now.shed {
        exposition.add(&table::GATEWAY_SHED, &[source, step], *count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_refuses_stands_beside_what_it_answers() {
        let now = GatewayNow {
            waiting: 1,
            answered: vec![("chat", 200, 2)],
            broken: vec![("chat", 1)],
            times: vec![("chat", Arc::default()), ("models", Arc::default())],
            refused: vec![("invalid_api_key", 3), ("tls_failed", 0)],
            shed: vec![("chat".to_owned(), "refused".to_owned(), 4)],
        };
        let mut exposition = Exposition::default();
        gateway(&mut exposition, &now);
        let text = exposition.text();
        for line in [
            "tidegate_gateway_waiting_requests 1",
            "tidegate_gateway_requests_total{endpoint=\"chat\",status=\"200\"} 2",
            "tidegate_gateway_broken_streams_total{endpoint=\"chat\"} 1",
            "tidegate_gateway_broken_streams_total{endpoint=\"models\"} 0",
            "tidegate_gateway_refused_requests_total{reason=\"invalid_api_key\"} 3",
            "tidegate_gateway_refused_requests_total{reason=\"tls_failed\"} 0",
            "tidegate_gateway_shed_requests_total{source=\"chat\",step=\"refused\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
