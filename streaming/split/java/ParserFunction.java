package tideline.split;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The parser of plain rows as a function of Spark SQL: a STRING becomes a STRUCT, or NULL if the row is not plain.
 *
 * The STRUCT has the fields malformed (false), slots (a STRUCT with all slots), and those of the texts. The schemas name the key of a field in
 * its metadata.
 */
public final class ParserFunction implements ScalarFunction, Serializable {
    private static final String KEY = "key";
    private static final String QUOTED = "quoted";

    private final String name;
    private final StructType type;
    private final KeyTree keys;
    private final int slotCount;
    private final int textCount;

    public ParserFunction(String name, StructType slots, StructType texts) {
        this.name = name;
        LinkedHashMap found = new LinkedHashMap();
        slotCount = slots.fields().length;
        textCount = texts.fields().length;
        for (int n = 0; n < slotCount; n++) {
            StructField field = slots.fields()[n];
            if (field.metadata().contains(KEY)) {
                RequestedKey key = keyOf(field, found);
                key.slot = n;
                key.kind = RequestedKey.kindOf(field.dataType());
                key.quoted = field.metadata().contains(QUOTED);
            }
        }
        StructType result = new StructType().add("malformed", DataTypes.BooleanType, true).add("slots", bare(slots), true);
        for (int n = 0; n < textCount; n++) {
            if (texts.fields()[n].metadata().contains(KEY)) {
                keyOf(texts.fields()[n], found).text = n;
            }
            result = result.add(texts.fields()[n].name(), DataTypes.StringType, true);
        }
        type = result;
        keys = new KeyTree(new ArrayList(found.values()), 0);
    }

    private static RequestedKey keyOf(StructField field, LinkedHashMap found) {
        String[] members = field.metadata().getStringArray(KEY);
        Object id = Arrays.asList(members);
        if (!found.containsKey(id)) {
            found.put(id, new RequestedKey(members));
        }
        return (RequestedKey) found.get(id);
    }

    private static StructType bare(StructType slots) {
        StructType result = new StructType();
        for (StructField field : slots.fields()) {
            result = result.add(field.name(), field.dataType(), true, Metadata.empty());
        }
        return result;
    }

    /** Spark's generated code calls this method by its name, also for NULL. */
    public InternalRow invoke(UTF8String row) {
        return row == null ? null : PlainRowParser.parse(keys, slotCount, textCount, row);
    }

    public Object produceResult(InternalRow input) {
        return input.isNullAt(0) ? null : invoke(input.getUTF8String(0));
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.StringType};
    }

    public DataType resultType() {
        return type;
    }

    public String name() {
        return name;
    }

    /** Equal functions have equal names, so Spark recognizes equal expressions. */
    public String canonicalName() {
        return name;
    }
}
