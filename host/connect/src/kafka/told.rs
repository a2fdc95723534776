//! What librdkafka tells of its connections, beside the results of what it is asked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

/// The first request is sent, and not answered.
const FIRST_REQUEST: &str = "in state APIVERSION_QUERY";
const WANTS_TLS: &str =
    "; a broker that wants TLS hangs up like this on a client without it: set security.protocol";
/// OpenSSL's words. librdkafka adds its advice to them, and that it is about TLS, only where the handshake takes long.
const UNKNOWN_CERTIFICATE: &str = "certificate verify failed";
/// librdkafka's words of a connection that is closed while TLS is agreed on, and of one that is closed as soon as
/// something is asked without a login.
const NO_TLS: &str = "connecting to a PLAINTEXT broker listener?";
const WANTS_LOGIN: &str = "might require SASL authentication";
/// So many milliseconds after a connection was made, the first question was refused.
const AT_ONCE: u64 = 2000;
const AUTHORITY: &str = "ssl.ca.location";

/// The last trouble that says something of its cause.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Option<Cause>>);

/// A trouble of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    code: Option<RDKafkaErrorCode>,
    /// librdkafka's own words.
    pub(super) text: String,
}

impl Told {
    pub(super) fn note(&self, error: &KafkaError, text: &str) {
        let code = error.rdkafka_error_code();
        let mut cause = self.lock();
        // That all brokers are down is told after the reason why.
        if code == Some(RDKafkaErrorCode::AllBrokersDown) && cause.is_some() {
            return;
        }
        let mut text = text.to_owned();
        advise(&mut text);
        *cause = Some(Cause { code, text });
    }

    /// A line of the log. Some closed connections are told of there alone.
    pub(super) fn note_line(&self, facility: &str, line: &str) {
        if facility != "FAIL" {
            return;
        }
        // The name of librdkafka's thread stands before it.
        let after_thread = line
            .strip_prefix("[thrd:")
            .and_then(|line| line.split_once("]: "));
        let mut text = after_thread.map_or(line, |(_, text)| text).to_owned();
        if text.contains("Disconnected") && text.contains(FIRST_REQUEST) {
            text += WANTS_TLS;
        }
        advise(&mut text);
        let mut cause = self.lock();
        // What was said of the same closing as an error says more.
        if !cause.as_ref().is_some_and(Cause::is_of_security) {
            *cause = Some(Cause { code: None, text });
        }
    }

    pub(super) fn last(&self) -> Option<Cause> {
        self.lock().clone()
    }

    /// A panic elsewhere leaves the plain values behind this lock whole.
    fn lock(&self) -> MutexGuard<'_, Option<Cause>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says what to do, if that is missing.
fn advise(text: &mut String) {
    if text.contains(NO_TLS) {
        text.push_str("; security.protocol says TLS, and the listener may speak none");
    }
    if text.contains(UNKNOWN_CERTIFICATE) && !text.contains(AUTHORITY) {
        text.push_str("; set ssl.ca.location to the certificate of whoever signed the broker's");
    }
}

impl Cause {
    /// Whether the broker hung up as soon as it was asked something, as one does that wants a login first.
    pub(super) fn is_hung_up_at_once(&self) -> bool {
        let after = self.text.split_once("(after ");
        let after = after.and_then(|(_, rest)| rest.split_once("ms in state UP"));
        let millis = after.and_then(|(millis, _)| millis.parse::<u64>().ok());
        self.text.contains("Disconnected") && millis.is_some_and(|millis| millis < AT_ONCE)
    }

    /// Whether the two ends do not agree on who they are, or on how to talk: a broker that is only away does not say so,
    /// and time seldom mends it.
    pub(super) fn is_of_security(&self) -> bool {
        use RDKafkaErrorCode as Code;
        let said = matches!(
            self.code,
            Some(Code::SSL | Code::Authentication | Code::SaslAuthenticationFailed)
        );
        let hints = [WANTS_TLS, UNKNOWN_CERTIFICATE, NO_TLS, WANTS_LOGIN];
        said || hints.iter().any(|hint| self.text.contains(hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_stays_when_all_brokers_are_said_to_be_down() {
        let told = Told::default();
        assert_eq!(told.last(), None);
        let error = |code| KafkaError::Global(code);
        told.note(
            &error(RDKafkaErrorCode::AllBrokersDown),
            "1/1 brokers are down",
        );
        told.note(&error(RDKafkaErrorCode::SSL), "SSL handshake failed");
        told.note(
            &error(RDKafkaErrorCode::AllBrokersDown),
            "1/1 brokers are down",
        );
        told.note_line("FAIL", "[thrd:b]: b: Disconnected (after 1ms in state UP)");
        let last = told.last();
        assert!(last.is_some_and(|cause| cause.is_of_security() && cause.text.contains("SSL")));
    }

    #[test]
    fn a_broker_that_hangs_up_on_the_first_request_is_said_to_want_tls() {
        let told = Told::default();
        told.note_line("CONNECT", "[thrd:b]: b: connecting");
        assert_eq!(told.last(), None);
        told.note_line("FAIL", "[thrd:b]: b: Disconnected (after 1ms in state UP)");
        let cause = told.last();
        assert!(cause.is_some_and(|cause| {
            !cause.is_of_security() && cause.text == "b: Disconnected (after 1ms in state UP)"
        }));
        assert!(told.last().is_some_and(|cause| cause.is_hung_up_at_once()));
        told.note_line(
            "FAIL",
            "[thrd:b]: b: Disconnected (after 9000ms in state UP)",
        );
        assert!(told.last().is_some_and(|cause| !cause.is_hung_up_at_once()));
        let line = "[thrd:b]: b: Disconnected: closed (after 0ms in state APIVERSION_QUERY)";
        told.note_line("FAIL", line);
        let cause = told.last();
        assert!(cause.is_some_and(|cause| {
            cause.is_of_security() && cause.text.contains("security.protocol")
        }));
    }

    #[test]
    fn a_certificate_that_nobody_known_has_signed_is_told_with_what_to_do() {
        let short = "b: error:0A000086:SSL routines::certificate verify failed (after 2ms)";
        let long = "b: certificate verify failed: verify that ssl.ca.location is right";
        for text in [short, long] {
            let told = Told::default();
            told.note(
                &KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure),
                text,
            );
            let last = told.last().filter(Cause::is_of_security);
            let advice = last.map(|cause| cause.text.matches("ssl.ca.location").count());
            assert_eq!(advice, Some(1), "{text}");
            let told = Told::default();
            told.note_line("FAIL", &format!("[thrd:b]: {text}"));
            assert!(told.last().is_some_and(|cause| cause.is_of_security()));
        }
    }
}
