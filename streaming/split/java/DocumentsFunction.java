package tideline.split;

import java.io.Serializable;
import java.util.ArrayList;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Splits a text into the JSON objects that follow each other in it, as a function of Spark SQL: a STRING becomes an ARRAY of STRINGs.
 *
 * Only quotes and brackets are read, so objects that are not strict JSON are split as well, and there is no limit of nesting or length. From
 * the first place at which no complete object begins, the rest is one text. A text with at most one object is returned as it is.
 */
public final class DocumentsFunction implements ScalarFunction, Serializable {
    static final String NAME = "documents";
    private static final byte RECORD_SEPARATOR = 0x1e;

    /** Spark's generated code calls this method by its name, also for NULL. */
    public ArrayData invoke(UTF8String row) {
        if (row == null) {
            return null;
        }
        byte[] text;
        int start = 0;
        if (row.getBaseObject() instanceof byte[]) {
            text = (byte[]) row.getBaseObject();
            start = (int) (row.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        } else {
            text = row.getBytes();
        }
        int end = start + row.numBytes();
        ArrayList documents = new ArrayList();
        int at = skipSeparators(text, start, end);
        while (at < end) {
            int stop = text[at] == '{' ? objectEnd(text, at, end) : end;
            documents.add(UTF8String.fromBytes(text, at, stop - at));
            at = skipSeparators(text, stop, end);
        }
        return new GenericArrayData(documents.size() > 1 ? documents.toArray() : new Object[] {row});
    }

    private static int skipSeparators(byte[] text, int at, int end) {
        while (at < end) {
            byte c = text[at];
            if (c != ' ' && c != '\n' && c != '\t' && c != '\r' && c != ',' && c != RECORD_SEPARATOR) {
                break;
            }
            at++;
        }
        return at;
    }

    /** Returns the position behind the object that begins at the position; the end of the text if it is not complete. */
    private static int objectEnd(byte[] text, int at, int end) {
        int depth = 0;
        while (at < end) {
            byte c = text[at++];
            if (c == '"' || c == '\'') {
                at = quoteEnd(text, at, end, c);
            } else if (c == '{' || c == '[') {
                depth++;
            } else if ((c == '}' || c == ']') && --depth == 0) {
                return at;
            }
        }
        return end;
    }

    private static int quoteEnd(byte[] text, int at, int end, byte quote) {
        while (at < end) {
            byte c = text[at++];
            if (c == quote) {
                return at;
            }
            if (c == '\\') {
                at++;
            }
        }
        return end;
    }

    public Object produceResult(InternalRow input) {
        return input.isNullAt(0) ? null : invoke(input.getUTF8String(0));
    }

    public DataType[] inputTypes() {
        return new DataType[] {DataTypes.StringType};
    }

    public DataType resultType() {
        return DataTypes.createArrayType(DataTypes.StringType, false);
    }

    public String name() {
        return NAME;
    }

    public String canonicalName() {
        return "tideline." + NAME;
    }
}
