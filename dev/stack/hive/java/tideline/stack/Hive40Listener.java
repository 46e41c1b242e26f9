package tideline.stack;

import java.lang.reflect.Method;
import java.sql.Connection;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.TxnType;
import org.apache.hadoop.hive.metastore.events.AbortTxnEvent;
import org.apache.hadoop.hive.metastore.events.CommitTxnEvent;
import org.apache.hadoop.hive.metastore.events.ListenerEvent;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.EventMessage.EventType;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;
import org.apache.hadoop.hive.metastore.tools.SQLGenerator;
import org.apache.hive.hcatalog.listener.DbNotificationListener;

/**
 * Logs the events of a metastore of Hive 4.0, whose own listener is in no repository.
 *
 * <p>The listener of Hive 4.2 fits, except that it asks the ends of transactions for their databases and write ids, which 4.0 does not know. These two
 * events are logged here. All messages are built by the classes of Hive 4.0, so a reader of the log sees what Hive 4.0 writes. This class is compiled
 * against Hive 4.2 and calls by reflection what only 4.0 has.
 */
public final class Hive40Listener extends DbNotificationListener {
  private static final Class<?>[] ROW = {
    NotificationEvent.class, ListenerEvent.class, Connection.class, SQLGenerator.class
  };

  private final MessageEncoder encoder;

  public Hive40Listener(Configuration configuration) throws MetaException {
    super(configuration);
    encoder = MessageFactory.getDefaultInstance(configuration);
  }

  @Override
  public void onCommitTxn(CommitTxnEvent event, Connection connection, SQLGenerator sql) throws MetaException {
    if (event.getTxnType() == TxnType.READ_ONLY) return;
    var message = build("buildCommitTxnMessage", new Class<?>[] {Long.class}, event.getTxnId());
    log(EventType.COMMIT_TXN, message, event, connection, sql);
  }

  @Override
  public void onAbortTxn(AbortTxnEvent event, Connection connection, SQLGenerator sql) throws MetaException {
    if (event.getTxnType() == TxnType.READ_ONLY) return;
    var types = new Class<?>[] {Long.class, List.class};
    var message = build("buildAbortTxnMessage", types, event.getTxnId(), event.getDbsUpdated());
    log(EventType.ABORT_TXN, message, event, connection, sql);
  }

  private static EventMessage build(String name, Class<?>[] types, Object... values) throws MetaException {
    try {
      return (EventMessage) MessageBuilder.class.getMethod(name, types).invoke(MessageBuilder.getInstance(), values);
    } catch (ReflectiveOperationException error) {
      throw new MetaException(error.toString());
    }
  }

  private void log(EventType type, EventMessage message, ListenerEvent event, Connection connection, SQLGenerator sql)
      throws MetaException {
    int nowSeconds = (int) (System.currentTimeMillis() / 1000);
    var row = new NotificationEvent(0, nowSeconds, type.toString(), encoder.getSerializer().serialize(message));
    try {
      Method add = DbNotificationListener.class.getDeclaredMethod("addNotificationLog", ROW);
      add.setAccessible(true);
      add.invoke(this, row, event, connection, sql);
    } catch (ReflectiveOperationException error) {
      throw new MetaException(error.toString());
    }
  }
}
