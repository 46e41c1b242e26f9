package tideline.stack;

import org.apache.hadoop.hive.conf.HiveConf;

/**
 * A long-lived SQL engine of Hive 3.1 in one process, without HiveServer2. Its compaction workers are in the metastore.
 *
 * <p>Usage: SqlServer HOST PORT; {@link SessionServer} describes the protocol.
 */
public final class SqlServer {
  private SqlServer() {}

  public static void main(String[] args) throws Exception {
    HiveConf conf = new HiveConf(SqlServer.class);
    new SqlSession(conf).close(); // pays for class loading before the port opens
    SessionServer.run(args[0], Integer.parseInt(args[1]), conf);
  }
}
