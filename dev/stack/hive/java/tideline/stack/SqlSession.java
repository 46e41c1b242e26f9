package tideline.stack;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.FieldSchema;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.metadata.Hive;
import org.apache.hadoop.hive.ql.session.SessionState;

/** One session of Hive, of any version. It belongs to the thread that made it, because Hive keeps sessions in thread-local variables. */
final class SqlSession implements AutoCloseable {
  private static final Pattern SET = Pattern.compile("(?is)\\s*set\\s+([^=\\s]+)\\s*=(.*)");
  private static final int MAX_ROWS = 1_000_000;
  private static final int MAX_EVENTS = 10_000;

  private final SessionState state;

  SqlSession(HiveConf conf) throws Exception {
    state = new SessionState(new HiveConf(conf));
    state.initTxnMgr(state.getConf());
    SessionState.start(state);
  }

  /** What a statement did: rows tab-separated as Hive prints them, and the notification events that were logged meanwhile. */
  static final class Answer {
    boolean ok;
    double seconds;
    List<String> columns = new ArrayList<>();
    List<String> rows = new ArrayList<>();
    List<Object[]> events = new ArrayList<>();
    String error;
    int code;
  }

  /**
   * Runs one statement, or "set name=value", which concerns this session only. Whatever fails, a metastore that is away included,
   * is an answer and not an exception: the session goes on.
   */
  Answer run(String sql) {
    Answer answer = new Answer();
    long start = System.nanoTime();
    Matcher set = SET.matcher(sql);
    if (set.matches()) {
      state.getConf().set(set.group(1), set.group(2).strip());
      answer.ok = true;
      return answer;
    }
    try {
      long before = metastore().getCurrentNotificationEventId().getEventId();
      execute(sql, answer);
      answer.seconds = (System.nanoTime() - start) / 1e9;
      addEvents(before, answer);
    } catch (Exception e) {
      answer.ok = false;
      answer.error = e.toString();
    }
    return answer;
  }

  private void execute(String sql, Answer answer) throws Exception {
    IDriver driver = DriverFactory.newDriver(state.getConf());
    try {
      answer.ok = DriverRun.succeeds(driver, sql, answer);
      if (!answer.ok) return;
      driver.setMaxRows(MAX_ROWS);
      driver.getResults(answer.rows);
      if (driver.getSchema() != null && driver.getSchema().getFieldSchemas() != null)
        for (FieldSchema field : driver.getSchema().getFieldSchemas()) answer.columns.add(field.getName());
    } finally {
      driver.close();
      OneJobAtATime.release();
    }
  }

  private void addEvents(long before, Answer answer) throws Exception {
    List<NotificationEvent> events = metastore().getNextNotification(before, MAX_EVENTS, null).getEvents();
    if (events == null) return;
    for (NotificationEvent event : events)
      answer.events.add(new Object[] {event.getEventId(), event.getEventType(), event.getDbName(), event.getTableName()});
  }

  private IMetaStoreClient metastore() throws Exception {
    return Hive.get(state.getConf()).getMSC();
  }

  @Override
  public void close() throws Exception {
    state.close();
    Hive.closeCurrent();
  }
}
