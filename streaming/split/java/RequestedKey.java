package tideline.split;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** A key, with where its value goes: into a slot, into a text beside the slots, or both. */
final class RequestedKey implements Serializable {
    static final int STRING = 0;
    static final int BOOLEAN = 1;
    static final int BYTE = 2;
    static final int SHORT = 3;
    static final int INTEGER = 4;
    static final int LONG = 5;
    static final int DOUBLE = 6;
    private static final DataType[] KINDS = {
        DataTypes.StringType, DataTypes.BooleanType, DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType,
        DataTypes.DoubleType
    };

    final String[] members;
    /** The position of the slot, -1 for none; and the kind of its value. */
    int slot = -1;
    int kind;
    /** Whether a quoted number fits the slot. */
    boolean quoted;
    /** The number of the text, -1 for none. */
    int text = -1;

    RequestedKey(String[] members) {
        this.members = members;
    }

    /** Returns the kind of the values of a type. */
    static int kindOf(DataType type) {
        int kind = Arrays.asList(KINDS).indexOf(type);
        if (kind < 0) {
            throw new IllegalArgumentException("a flat table has no columns of type " + type);
        }
        return kind;
    }
}
