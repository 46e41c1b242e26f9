package tideline.stack;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.DatabaseProduct;
import org.apache.hadoop.hive.metastore.MetaStoreEventListener;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.events.DropDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.DropTableEvent;
import org.apache.hadoop.hive.metastore.events.PreEventContext;
import org.apache.hadoop.hive.metastore.events.PreEventContext.PreEventType;

/**
 * Keeps drops and transactions from hanging on Derby, where all calls of transactions share a lock inside the metastore.
 *
 * <p>They take it before they log an event, which locks NOTIFICATION_SEQUENCE. A drop logs its event first; then Hive forgets the
 * writes of the table, which needs that lock. Derby sees only one of the two: both hang for a minute, then one of them fails, for
 * example a commit. So a drop takes Hive's lock from its beginning to its end.
 */
public final class DropsInTurn {
  private static final ThreadLocal<Integer> HELD = ThreadLocal.withInitial(() -> 0);

  private DropsInTurn() {}

  /** Takes the lock before Hive begins to drop a table or database; the lock of a database includes those of its tables. */
  public static final class Before extends MetaStorePreEventListener {
    public Before(Configuration configuration) {
      super(configuration);
    }

    @Override
    public void onEvent(PreEventContext context) throws MetaException {
      PreEventType type = context.getEventType();
      if (type != PreEventType.DROP_TABLE && type != PreEventType.DROP_DATABASE) return;
      product(getConf()).lockInternal();
      HELD.set(HELD.get() + 1);
    }
  }

  /** Releases it; Hive also tells of a drop that failed. */
  public static final class After extends MetaStoreEventListener {
    public After(Configuration configuration) {
      super(configuration);
    }

    @Override
    public void onDropTable(DropTableEvent event) throws MetaException {
      release();
    }

    @Override
    public void onDropDatabase(DropDatabaseEvent event) throws MetaException {
      release();
    }

    private void release() throws MetaException {
      if (HELD.get() == 0) return; // the drop failed before it began
      HELD.set(HELD.get() - 1);
      product(getConf()).unlockInternal();
    }
  }

  private static DatabaseProduct product(Configuration configuration) {
    return DatabaseProduct.determineDatabaseProduct(DatabaseProduct.DERBY_NAME, configuration);
  }
}
