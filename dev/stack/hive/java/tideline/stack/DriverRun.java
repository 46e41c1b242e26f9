package tideline.stack;

import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessorException;

/** How the driver of Hive 4 reports a failure: it raises it. */
final class DriverRun {
  private DriverRun() {}

  /** Runs one statement and returns whether Hive accepted it; otherwise the answer says why not. */
  static boolean succeeds(IDriver driver, String sql, SqlSession.Answer answer) {
    try {
      driver.run(sql);
      return true;
    } catch (CommandProcessorException e) {
      answer.error = String.valueOf(e.getMessage());
      answer.code = e.getErrorCode();
      return false;
    }
  }
}
