package tideline.expressions;

import com.esotericsoftware.kryo.ClassResolver;
import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.KryoException;
import com.esotericsoftware.kryo.Registration;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import com.esotericsoftware.kryo.util.DefaultClassResolver;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Set;
import org.apache.hadoop.hive.ql.exec.SerializationUtilities;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDF;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFBridge;

/**
 * Reads an expression that Hive wrote with Kryo and prints its tree as JSON.
 *
 * <p>Hive 2 and 3 write with Kryo 3 and 4, Hive 4 with Kryo 5, whose lists begin otherwise and whose root carries its class.
 * The fields of the classes are the same. Only classes on the list are ever made, whatever the bytes name.
 *
 * <p>Compiled at start by Janino, which knows no generics.
 */
public final class Walker {
  private static final int DEPTH_MAX = 100;

  private final Kryo kryo;
  private final boolean isHive4;

  public Walker(boolean isHive4, ClassLoader classes, String allowed) throws ReflectiveOperationException {
    this.isHive4 = isHive4;
    this.kryo = SerializationUtilities.borrowKryo();
    Allowed resolver = new Allowed(kryo.getClassResolver(), classes, allowed);
    Field field = Kryo.class.getDeclaredField("classResolver");
    field.setAccessible(true);
    field.set(kryo, resolver);
    resolver.setKryo(kryo);
    if (isHive4) this.kryo.addDefaultSerializer(ArrayList.class, new Kryo5List());
  }

  public String read(byte[] bytes) {
    Input input = new Input(bytes);
    Object root = isHive4 ? kryo.readClassAndObject(input) : kryo.readObject(input, ExprNodeGenericFuncDesc.class);
    if (input.position() != bytes.length) throw new IllegalArgumentException("bytes behind the expression");
    StringBuilder out = new StringBuilder();
    print((ExprNodeDesc) root, out, 0);
    return out.toString();
  }

  private static void print(ExprNodeDesc node, StringBuilder out, int depth) {
    if (depth > DEPTH_MAX) throw new IllegalArgumentException("deeper than " + DEPTH_MAX);
    if (node instanceof ExprNodeColumnDesc) {
      out.append("{\"column\":");
      quote(((ExprNodeColumnDesc) node).getColumn(), out);
    } else if (node instanceof ExprNodeConstantDesc) {
      Object value = ((ExprNodeConstantDesc) node).getValue();
      out.append("{\"constant\":");
      if (value == null) out.append("null");
      else quote(value.toString(), out);
    } else {
      call((ExprNodeGenericFuncDesc) node, out, depth);
    }
    out.append(",\"type\":");
    quote(node.getTypeString(), out);
    out.append('}');
  }

  private static void call(ExprNodeGenericFuncDesc node, StringBuilder out, int depth) {
    GenericUDF function = node.getGenericUDF();
    out.append("{\"function\":");
    quote(function instanceof GenericUDFBridge ? ((GenericUDFBridge) function).getUdfClassName() : function.getClass().getName(), out);
    out.append(",\"arguments\":[");
    Iterator children = node.getChildren().iterator();
    while (children.hasNext()) {
      print((ExprNodeDesc) children.next(), out, depth + 1);
      if (children.hasNext()) out.append(',');
    }
    out.append(']');
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c >= ' ' && c < 127 && c != '"' && c != '\\') out.append(c);
      else out.append(String.format("\\u%04x", new Object[] {Integer.valueOf((int) c)}));
    }
    out.append('"');
  }

  /**
   * Makes classes of the list and no others. A class loader that refuses would not do: Kryo then asks its own.
   */
  private static final class Allowed extends DefaultClassResolver {
    private final ClassLoader classes;
    private final Set names = new HashSet();

    Allowed(ClassResolver hives, ClassLoader classes, String lines) {
      this.classes = classes;
      String[] all = lines.split("\n");
      for (int i = 0; i < all.length; i++) names.add(all[i].trim());
      for (int id = 0; hives.getRegistration(id) != null; id++) this.register(hives.getRegistration(id));
    }

    protected Class getTypeByName(String name) {
      if (!names.contains(name)) throw new KryoException("not allowed: " + name);
      try {
        return Class.forName(name, false, classes);
      } catch (ClassNotFoundException e) {
        throw new KryoException(e);
      }
    }
  }

  /** A list as Kryo 5 writes it: length + 1 with a flag "all of one class", then that class once, or the class of each. */
  private static final class Kryo5List extends Serializer {
    public void write(Kryo kryo, Output output, Object object) {
      throw new UnsupportedOperationException("only reads");
    }

    public Object read(Kryo kryo, Input input, Class type) {
      int head = input.readByte();
      int length = (head & 0x40) == 0 ? head & 0x3f : (head & 0x3f) | input.readVarInt(true) << 6;
      ArrayList list = new ArrayList();
      kryo.reference(list);
      if (length <= 1) return list;
      if ((head & 0x80) == 0) {
        for (int i = 1; i < length; i++) list.add(kryo.readClassAndObject(input));
        return list;
      }
      Registration element = kryo.readClass(input);
      if (element == null) throw new IllegalArgumentException("a list of nulls");
      boolean mayBeNull = input.readBoolean();
      for (int i = 1; i < length; i++) {
        list.add(mayBeNull ? kryo.readObjectOrNull(input, element.getType()) : kryo.readObject(input, element.getType()));
      }
      return list;
    }
  }
}
