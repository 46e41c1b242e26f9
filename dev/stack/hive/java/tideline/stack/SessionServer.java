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
import org.apache.hadoop.hive.conf.HiveConf;

/**
 * Serves Hive sessions on a socket, for every version of Hive: one TCP connection is one session, so several transactions can be open
 * side by side.
 *
 * <p>A request is one line, a JSON string with one statement; the answer is one line, a JSON object (see {@link SqlSession.Answer}).
 * Closing the connection ends the session.
 */
final class SessionServer {
  private static final int BACKLOG = 50;

  private SessionServer() {}

  /** Accepts connections until the process ends. */
  static void run(String host, int port, HiveConf conf) throws IOException {
    try (ServerSocket server = new ServerSocket(port, BACKLOG, InetAddress.getByName(host))) {
      while (true) {
        Socket client = server.accept();
        new Thread(() -> serve(client, conf), "session-" + client.getPort()).start();
      }
    }
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
