package org.apache.hadoop.hive.ql.exec;

import java.util.ArrayList;
import java.util.List;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.Serializer;
import org.apache.hive.com.esotericsoftware.kryo.io.Input;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * Replaces Hive's class of this name, which reads a field of java.util.ArrayList.SubList that Java 9 and later do not have: without it,
 * every MapReduce job fails. A sub-list is read back as a list.
 */
public class SerializationUtilities$ArrayListSubListSerializer extends Serializer<List<?>> {
  @Override
  public void write(Kryo kryo, Output output, List<?> list) {
    output.writeInt(list.size(), true);
    for (Object item : list) kryo.writeClassAndObject(output, item);
  }

  @Override
  public List<?> read(Kryo kryo, Input input, Class<List<?>> type) {
    List<Object> list = new ArrayList<>();
    kryo.reference(list);
    for (int left = input.readInt(true); left > 0; left--) list.add(kryo.readClassAndObject(input));
    return list;
  }
}
