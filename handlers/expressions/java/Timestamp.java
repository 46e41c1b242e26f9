package org.apache.hadoop.hive.common.type;

/** A timestamp as Hive 4 holds it, for reading: Spark brings Hive 2, which has no such class. */
public class Timestamp {
  private java.time.LocalDateTime localDateTime;

  public String toString() {
    return localDateTime.format(java.time.format.DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss.SSSSSSSSS"));
  }
}
