//! What the gateway counts, for those who scrape it.

/// What the gateway has answered and refused, which of its streams broke, what it has done under load, and what waits.
pub(super) fn metrics(
    waiting: usize,
    counted: &[(&'static str, u16, u64)],
    broken: &[(&'static str, u64)],
    refused: impl Iterator<Item = (&'static str, u64)>,
    shed: &[(String, String, u64)],
) -> String {
    let mut text = format!(
        "# TYPE tidegate_gateway_requests_waiting gauge\ntidegate_gateway_requests_waiting {waiting}\n\
         # TYPE tidegate_gateway_requests_total counter\n"
    );
    for (endpoint, status, count) in counted {
        text += &format!(
            "tidegate_gateway_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}} {count}\n"
        );
    }
    text += "# TYPE tidegate_gateway_broken_streams_total counter\n";
    for (endpoint, count) in broken {
        text +=
            &format!("tidegate_gateway_broken_streams_total{{endpoint=\"{endpoint}\"}} {count}\n");
    }
    text += "# TYPE tidegate_gateway_refused_total counter\n";
    for (reason, count) in refused {
        text += &format!("tidegate_gateway_refused_total{{reason=\"{reason}\"}} {count}\n");
    }
    // Nothing where no source says what it does under load.
    for (number, (source, step, count)) in shed.iter().enumerate() {
        if number == 0 {
            text += "# TYPE tidegate_gateway_shed_requests_total counter\n";
        }
        text += &format!(
            "tidegate_gateway_shed_requests_total{{source=\"{source}\",step=\"{step}\"}} {count}\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_gateway_refuses_stands_beside_what_it_answers() {
        let refused = [("invalid_api_key", 3), ("tls_failed", 0)];
        let (answered, broken) = ([("chat", 200, 2)], [("chat", 1)]);
        let text = metrics(1, &answered, &broken, refused.into_iter(), &[]);
        assert!(!text.contains("shed"), "{text}");
        let shed = [("chat".to_owned(), "refused".to_owned(), 4)];
        let text = text + &metrics(0, &[], &[], [].into_iter(), &shed);
        for line in [
            "tidegate_gateway_requests_waiting 1",
            "tidegate_gateway_requests_total{endpoint=\"chat\",status=\"200\"} 2",
            "tidegate_gateway_broken_streams_total{endpoint=\"chat\"} 1",
            "tidegate_gateway_refused_total{reason=\"invalid_api_key\"} 3",
            "tidegate_gateway_refused_total{reason=\"tls_failed\"} 0",
            "tidegate_gateway_shed_requests_total{source=\"chat\",step=\"refused\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }
}
