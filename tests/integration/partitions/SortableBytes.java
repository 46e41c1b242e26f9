import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.Properties;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.common.type.HiveChar;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.common.type.HiveVarchar;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.serde2.binarysortable.BinarySortableSerDe;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.objectinspector.StructObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.BytesWritable;

/** Prints what Hive's own BinarySortableSerDe makes of values: one line "type hex-of-text|NULL" in, one line of hex out. */
public final class SortableBytes {
  private static final HexFormat HEX = HexFormat.of();

  private SortableBytes() {}

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      byte[] text = words.length < 2 ? new byte[0] : words[1].equals("NULL") ? null : HEX.parseHex(words[1]);
      System.out.println(HEX.formatHex(serialized(words[0], text)));
    }
  }

  private static byte[] serialized(String type, byte[] text) throws Exception {
    Properties table = new Properties();
    table.setProperty("columns", "c");
    table.setProperty("columns.types", type);
    table.setProperty("serialization.sort.order", "+");
    table.setProperty("serialization.sort.order.null", "a");
    BinarySortableSerDe serde = new BinarySortableSerDe();
    serde.initialize(new Configuration(false), table, null);
    PrimitiveTypeInfo info = (PrimitiveTypeInfo) TypeInfoUtils.getTypeInfoFromTypeString(type);
    List<ObjectInspector> inspectors =
        Collections.singletonList(PrimitiveObjectInspectorFactory.getPrimitiveJavaObjectInspector(info));
    StructObjectInspector row =
        ObjectInspectorFactory.getStandardStructObjectInspector(Collections.singletonList("c"), inspectors);
    Object value = text == null ? null : value(info, text);
    BytesWritable bytes = (BytesWritable) serde.serialize(Collections.singletonList(value), row);
    return Arrays.copyOf(bytes.getBytes(), bytes.getLength());
  }

  private static Object value(PrimitiveTypeInfo info, byte[] bytes) {
    String text = new String(bytes, StandardCharsets.UTF_8);
    return switch (info.getPrimitiveCategory()) {
      case BOOLEAN -> Boolean.valueOf(text);
      case BYTE -> Byte.valueOf(text);
      case SHORT -> Short.valueOf(text);
      case INT -> Integer.valueOf(text);
      case LONG -> Long.valueOf(text);
      case FLOAT -> Float.valueOf(text);
      case DOUBLE -> Double.valueOf(text);
      case DECIMAL -> HiveDecimal.create(text);
      case DATE -> Date.valueOf(text);
      case TIMESTAMP -> Timestamp.valueOf(text);
      case CHAR -> new HiveChar(text, 40);
      case VARCHAR -> new HiveVarchar(text, 40);
      case BINARY -> bytes;
      default -> text;
    };
  }
}
