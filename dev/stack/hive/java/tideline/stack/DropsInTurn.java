package tideline.stack;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.DatabaseProduct;
import org.apache.hadoop.hive.metastore.MetaStoreEventListener;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.events.DropDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.DropTableEvent;

/**
 * Keeps drops and transactions from hanging on Derby, where all calls of transactions share a lock inside the metastore.
 *
 * <p>They take it before they log an event, which locks NOTIFICATION_SEQUENCE. A drop logs its event first; then Hive forgets the
 * writes of the table, which needs that lock. Derby sees only one of the two: both hang for a minute, then one of them fails, for
 * example a commit. So a drop takes Hive's lock before it logs anything, until its database transaction has ended.
 */
public final class DropsInTurn {
  private static final ThreadLocal<Boolean> HELD = ThreadLocal.withInitial(() -> false);

  private DropsInTurn() {}

  /** Takes the lock; must be listed before the listener of the log. */
  public static final class Before extends TransactionalMetaStoreEventListener {
    public Before(Configuration configuration) {
      super(configuration);
    }

    @Override
    public void onDropTable(DropTableEvent event) throws MetaException {
      take(getConf());
    }

    @Override
    public void onDropDatabase(DropDatabaseEvent event) throws MetaException {
      take(getConf());
    }
  }

  /** Releases it; Hive also tells of a drop that failed. */
  public static final class After extends MetaStoreEventListener {
    public After(Configuration configuration) {
      super(configuration);
    }

    @Override
    public void onDropTable(DropTableEvent event) throws MetaException {
      if (!isPartOfDatabase()) release(getConf());
    }

    @Override
    public void onDropDatabase(DropDatabaseEvent event) throws MetaException {
      release(getConf());
    }
  }

  private static void take(Configuration configuration) throws MetaException {
    if (HELD.get()) return;
    product(configuration).lockInternal();
    HELD.set(true);
  }

  private static void release(Configuration configuration) throws MetaException {
    if (!HELD.get()) return;
    HELD.set(false);
    product(configuration).unlockInternal();
  }

  /** Whether the table is dropped with its database, in the same database transaction; no event tells that. */
  private static boolean isPartOfDatabase() {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getMethodName().equals("drop_database_core")));
  }

  private static DatabaseProduct product(Configuration configuration) {
    return DatabaseProduct.determineDatabaseProduct(DatabaseProduct.DERBY_NAME, configuration);
  }
}
