package tideline.stack;

import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf;
import org.apache.hadoop.hive.metastore.conf.MetastoreConf.ConfVars;

/**
 * Creates the database of a Hive 3.1 metastore by the script of Hive's own distribution.
 *
 * <p>Usage: SchemaInit SCRIPT. The connection is that of metastore-site.xml.
 */
public final class SchemaInit {
  private SchemaInit() {}

  public static void main(String[] args) throws Exception {
    Configuration conf = MetastoreConf.newMetastoreConf();
    String url = MetastoreConf.getVar(conf, ConfVars.CONNECT_URL_KEY);
    String user = MetastoreConf.getVar(conf, ConfVars.CONNECTION_USER_NAME);
    String password = MetastoreConf.getPassword(conf, ConfVars.PWD);
    try (Connection connection = DriverManager.getConnection(url, user, password)) {
      runScript(connection, Path.of(args[0]));
    }
    if (url.startsWith("jdbc:derby:")) shutDownDerby();
    System.exit(0);
  }

  private static void runScript(Connection connection, Path script) throws Exception {
    StringBuilder sql = new StringBuilder();
    try (Statement statement = connection.createStatement()) {
      for (String line : Files.readAllLines(script)) {
        if (line.strip().startsWith("--")) continue;
        sql.append(line.stripTrailing()).append('\n');
        if (!line.stripTrailing().endsWith(";")) continue;
        statement.execute(sql.substring(0, sql.lastIndexOf(";")));
        sql.setLength(0);
      }
    }
  }

  private static void shutDownDerby() {
    try {
      DriverManager.getConnection("jdbc:derby:;shutdown=true");
    } catch (SQLException expected) {
      // Derby reports every orderly shutdown as an exception
    }
  }
}
