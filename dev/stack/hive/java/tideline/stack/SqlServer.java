package tideline.stack;

import com.google.gson.Gson;
import com.google.gson.JsonParseException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * A long-lived SQL engine in one process: Hive's own compiler, transaction manager and executor, without HiveServer2 (which
 * no repository has for this version). One TCP connection is one Hive session, so several transactions can be open side by side.
 *
 * <p>Usage: SqlServer HOST PORT. A request is one line, a JSON string with one statement; the answer is one line, a JSON
 * object (see {@link SqlSession.Answer}). Closing the connection ends the session.
 */
public final class SqlServer {
  private static final int BACKLOG = 50;

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
    try (ServerSocket server = new ServerSocket(Integer.parseInt(args[1]), BACKLOG, InetAddress.getByName(args[0]))) {
      while (true) {
        Socket client = server.accept();
        new Thread(() -> serve(client, conf), "session-" + client.getPort()).start();
      }
    }
  }

  private static void startCompactionWorker(HiveConf conf) throws Exception {
    Worker worker = new Worker();
    worker.setConf(new HiveConf(conf));
    worker.init(new AtomicBoolean());
    worker.start();
  }

  private static void serve(Socket client, HiveConf conf) {
    Gson gson = new Gson();
    try (client;
        var session = new SqlSession(conf);
        var in = new BufferedReader(new InputStreamReader(client.getInputStream(), StandardCharsets.UTF_8));
        Writer out = new OutputStreamWriter(client.getOutputStream(), StandardCharsets.UTF_8)) {
      client.setTcpNoDelay(true);
      for (String line; (line = in.readLine()) != null; ) {
        out.write(gson.toJson(session.run(gson.fromJson(line, String.class))) + "\n");
        out.flush();
      }
    } catch (IOException | JsonParseException e) {
      System.err.println("session ends: " + e);
    } catch (Exception e) {
      e.printStackTrace();
    }
  }
}
