package tideline.stack;

import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.processors.CommandProcessorResponse;

/** How the driver of Hive 3.1 reports a failure: it returns it. */
final class DriverRun {
  private DriverRun() {}

  /** Runs one statement and returns whether Hive accepted it; otherwise the answer says why not. */
  static boolean succeeds(IDriver driver, String sql, SqlSession.Answer answer) throws Exception {
    CommandProcessorResponse response = driver.run(sql);
    answer.error = response.getErrorMessage();
    answer.code = response.getResponseCode();
    return response.getResponseCode() == 0;
  }
}
