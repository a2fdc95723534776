import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.KStream;

/** Copies a topic with Kafka Streams on one thread, or filters it by byte 10 of the value, until it is killed. */
public final class Copy {
    private Copy() {}

    /** Brokers, input, output, application id, processing.guarantee, milliseconds, pass or filter, state, NAME=VALUE... */
    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[3]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, arguments[4]);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, arguments[5]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[7]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        for (int index = 8; index < arguments.length; index++) {
            String[] pair = arguments[index].split("=", 2);
            settings.put(StreamsConfig.producerPrefix(pair[0]), pair[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> records = builder.stream(arguments[1]);
        if (arguments[6].equals("filter")) {
            records = records.filter((key, value) -> value[10] % 2 == 0);
        }
        records.to(arguments[2]);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
            return null;
        });
        streams.start();
    }
}
