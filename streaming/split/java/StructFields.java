package tideline.split;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The requested fields of one STRUCT, found by the bytes of a member's name.
 *
 * A hash table is addressed by the first eight bytes of a name and its length. Most names of members are not requested, and are
 * rejected by one comparison of eight bytes.
 */
public final class StructFields implements Serializable {
    static final int STRUCT = 0;
    static final int STRING = 1;
    static final int SHORT = 2;
    static final int INTEGER = 3;
    static final int LONG = 4;
    static final int DOUBLE = 5;
    static final int BOOLEAN = 6;
    private static final long MIX = 0x9E3779B97F4A7C15L;

    final int count;
    final int[] kinds;
    /** The fields of each field that is a STRUCT itself. */
    final StructFields[] inner;
    private final byte[][] names;
    private final long[] heads;
    private final int[] table;

    /** Creates the fields of a STRUCT. Spark's reader sets the field for doubtful rows itself, and ignores a member of this name. */
    public StructFields(StructType type, String doubt) {
        StructField[] fields = type.fields();
        count = fields.length;
        kinds = new int[count];
        inner = new StructFields[count];
        names = new byte[count][];
        heads = new long[count];
        table = new int[Integer.highestOneBit(Math.max(count, 1)) * 4];
        Arrays.fill(table, -1);
        for (int n = 0; n < count; n++) {
            DataType fieldType = fields[n].dataType();
            kinds[n] = kindOf(fieldType);
            inner[n] = kinds[n] == STRUCT ? new StructFields((StructType) fieldType, null) : null;
            names[n] = UTF8String.fromString(fields[n].name()).getBytes();
            heads[n] = head(names[n], 0, names[n].length, names[n].length);
            if (!fields[n].name().equals(doubt)) {
                insert(n);
            }
        }
    }

    private void insert(int field) {
        int at = place(heads[field], names[field].length);
        while (table[at] >= 0) {
            at = at + 1 & table.length - 1;
        }
        table[at] = field;
    }

    private static int kindOf(DataType type) {
        if (type instanceof StructType) {
            return STRUCT;
        }
        DataType[] kinds = {
            DataTypes.StringType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType, DataTypes.DoubleType,
            DataTypes.BooleanType
        };
        int at = Arrays.asList(kinds).indexOf(type);
        if (at < 0) {
            throw new IllegalArgumentException("a flat table has no columns of type " + type);
        }
        return at + 1;
    }

    /** Returns the field whose name is the bytes from start to stop, or -1. Bytes before end may be read. */
    int find(byte[] text, int start, int stop, int end) {
        long head = head(text, start, stop, end);
        int length = stop - start;
        int at = place(head, length);
        int field = table[at];
        while (field >= 0) {
            if (heads[field] == head && names[field].length == length && sameTail(names[field], text, start)) {
                return field;
            }
            at = at + 1 & table.length - 1;
            field = table[at];
        }
        return -1;
    }

    private static boolean sameTail(byte[] name, byte[] text, int start) {
        for (int n = 8; n < name.length; n++) {
            if (name[n] != text[start + n]) {
                return false;
            }
        }
        return true;
    }

    private int place(long head, int length) {
        return (int) ((head + length) * MIX >>> 40) & table.length - 1;
    }

    /** Returns the first eight bytes of a name as a number, the first byte lowest; shorter names are filled with zeros. */
    private static long head(byte[] text, int start, int stop, int end) {
        int length = Math.min(stop - start, 8);
        if (start + 8 <= end) {
            long word = JsonTokens.word(text, start);
            return length == 8 ? word : word & (1L << length * 8) - 1;
        }
        long word = 0;
        for (int n = length - 1; n >= 0; n--) {
            word = word << 8 | text[start + n] & 0xff;
        }
        return word;
    }
}
