package tideline.stack;

import java.nio.charset.StandardCharsets;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.streaming.HiveStreamingConnection;
import org.apache.hive.streaming.StrictDelimitedInputWriter;

/**
 * Writes by Hive's streaming API, which logs no event about an existing partition.
 *
 * <p>Usage: StreamingWriter DB TABLE BATCH_SIZE LINE... Each line is one transaction: values with commas between them, those of partition
 * keys last. A batch is of several transactions that write to one file each.
 */
public final class StreamingWriter {
  private StreamingWriter() {}

  public static void main(String[] args) throws Exception {
    HiveStreamingConnection connection =
        HiveStreamingConnection.newBuilder()
            .withDatabase(args[0])
            .withTable(args[1])
            .withAgentInfo("tideline-stack")
            .withTransactionBatchSize(Integer.parseInt(args[2]))
            .withRecordWriter(StrictDelimitedInputWriter.newBuilder().withFieldDelimiter(',').build())
            .withHiveConf(new HiveConf(StreamingWriter.class))
            .connect();
    for (int i = 3; i < args.length; i++) {
      connection.beginTransaction();
      connection.write(args[i].getBytes(StandardCharsets.UTF_8));
      connection.commitTransaction();
    }
    connection.close();
    System.exit(0); // its heartbeat leaves a thread behind
  }
}
