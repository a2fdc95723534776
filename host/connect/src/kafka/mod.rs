//! Kafka
