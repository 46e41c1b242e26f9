package org.apache.hadoop.hive.common.type;

/** A date as Hive 4 holds it, for reading: Spark brings Hive 2, which has no such class. */
public class Date {
  private java.time.LocalDate localDate;

  public String toString() {
    return localDate.toString();
  }
}
