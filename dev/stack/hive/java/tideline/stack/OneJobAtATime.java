package tideline.stack;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.apache.hadoop.hive.ql.exec.Utilities;
import org.apache.hadoop.hive.ql.hooks.ExecuteWithHookContext;
import org.apache.hadoop.hive.ql.hooks.HookContext;

/**
 * Lets one statement at a time run MapReduce jobs in this process.
 *
 * <p>Hive's map tasks expect a process of their own: ExecMapper.done ("no more rows are needed") and IOContextMap (which file is read)
 * are static. If two jobs run side by side, the end of one makes the other stop reading, and a query counts too few rows. A hook runs
 * after the statement has its locks, so a statement that waits for a lock keeps no other from running.
 */
public final class OneJobAtATime implements ExecuteWithHookContext {
  private static final int MAX_WAIT_MIN = 9; // less than the client waits for a statement
  private static final ReentrantLock RUNNING = new ReentrantLock(true);

  @Override
  public void run(HookContext context) throws InterruptedException {
    if (Utilities.getMRTasks(context.getQueryPlan().getRootTasks()).isEmpty()) return;
    if (context.getHookType() == HookContext.HookType.PRE_EXEC_HOOK) acquire();
    else if (RUNNING.isHeldByCurrentThread()) RUNNING.unlock();
  }

  private static void acquire() throws InterruptedException {
    if (!RUNNING.tryLock(MAX_WAIT_MIN, TimeUnit.MINUTES))
      throw new IllegalStateException("the jobs of another statement have run for " + MAX_WAIT_MIN + " minutes: " + RUNNING);
  }

  /** For a statement that ended without its last hook. */
  static void release() {
    while (RUNNING.isHeldByCurrentThread()) RUNNING.unlock();
  }
}
