package tideline.stack;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * A long-lived SQL engine in one process: Hive's own compiler, transaction manager and executor, without HiveServer2 (which
 * no repository has for this version).
 *
 * <p>Usage: SqlServer HOST PORT; {@link SessionServer} describes the protocol.
 */
public final class SqlServer {
  /** What HiveServer2 says of itself; without it the metastore refuses to create transactional tables. */
  private static final String[] CAPABILITIES = {
    "EXTWRITE", "EXTREAD", "HIVEBUCKET2", "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE", "HIVECACHEINVALIDATE", "HIVEMANAGESTATS",
    "HIVEMANAGEDINSERTWRITE", "HIVEMANAGEDINSERTREAD", "HIVESQL", "HIVEMQT", "HIVEONLYMQTWRITE"
  };

  /** Whether a compaction worker runs here too: since Hive 4.2 the metastore has none, HiveServer2 is their only place. */
  private static final String COMPACTION_WORKER = "tideline.stack.compaction.worker";

  private SqlServer() {}

  public static void main(String[] args) throws Exception {
    HiveMetaStoreClient.setProcessorIdentifier("tideline-stack");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
    HiveConf conf = new HiveConf(SqlServer.class);
    new SqlSession(conf).close(); // pays for class loading before the port opens
    if (conf.getBoolean(COMPACTION_WORKER, false)) startCompactionWorker(conf);
    SessionServer.run(args[0], Integer.parseInt(args[1]), conf);
  }

  private static void startCompactionWorker(HiveConf conf) throws Exception {
    Worker worker = new Worker();
    worker.setConf(new HiveConf(conf));
    worker.init(new AtomicBoolean());
    worker.start();
  }
}
