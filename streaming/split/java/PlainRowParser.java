package tideline.split;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Parses one plain row: a strict JSON object in which every requested value fits its type.
 *
 * The result equals that of Spark's from_json. Any other row has no result (null), and the caller parses it with from_json. So this class
 * need not know how Spark treats malformed rows, misfits, duplicate members or half a surrogate pair.
 */
final class PlainRowParser extends JsonTexts {
    private static final UTF8String TRUE = UTF8String.fromString("true");
    private static final UTF8String FALSE = UTF8String.fromString("false");
    private static final int LONG_DIGITS = 18;

    private PlainRowParser(byte[] text, int end) {
        super(text, end);
    }

    static InternalRow parse(StructFields fields, UTF8String row) {
        byte[] text;
        int start = 0;
        if (row.getBaseObject() instanceof byte[]) {
            text = (byte[]) row.getBaseObject();
            start = (int) (row.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        } else {
            text = row.getBytes();
        }
        return new PlainRowParser(text, start + row.numBytes()).parseRow(fields, start);
    }

    private InternalRow parseRow(StructFields fields, int start) {
        int at = space(start);
        if (at >= end || text[at] != '{') {
            return null;
        }
        Object[] values = new Object[fields.count];
        at = object(fields, values, at + 1, 1);
        return at < 0 || space(at) < end ? null : new GenericInternalRow(values);
    }

    private int object(StructFields fields, Object[] values, int at, int depth) {
        long[] seen = new long[(fields.count >> 6) + 1];
        at = space(at);
        if (depth > DEPTH_MAX || at >= end) {
            return -1;
        }
        if (text[at] == '}') {
            return at + 1;
        }
        while (true) {
            int start = at + 1;
            int stop = at < end && text[at] == '"' ? string(start) : -1;
            if (stop < 0) {
                return -1;
            }
            int field = escaped ? findDecoded(fields, start, stop) : fields.find(text, start, stop, end);
            at = colon(stop + 1);
            if (at < 0) {
                return -1;
            }
            if (field < 0) {
                at = field == -1 ? skip(at, depth) : -1;
            } else if ((seen[field >> 6] >> field & 1) != 0) {
                return -1;
            } else {
                seen[field >> 6] |= 1L << field;
                at = value(fields, field, values, at, depth);
            }
            at = at < 0 ? end : space(at);
            if (at >= end) {
                return -1;
            }
            byte next = text[at++];
            if (next == '}') {
                return at;
            }
            if (next != ',') {
                return -1;
            }
            at = space(at);
        }
    }

    /** Returns the field of a name with escapes, -1 if there is none, -2 if the name contains half a surrogate pair. */
    private int findDecoded(StructFields fields, int start, int stop) {
        UTF8String name = stringText(start, stop);
        return name == null ? -2 : fields.find(name.getBytes(), 0, name.numBytes(), name.numBytes());
    }

    private int value(StructFields fields, int field, Object[] values, int at, int depth) {
        byte first = text[at];
        if (first == 'n') {
            return literal(at, "null");
        }
        switch (fields.kinds[field]) {
            case StructFields.STRUCT:
                return first == '{' ? struct(fields.inner[field], values, field, at, depth) : -1;
            case StructFields.STRING:
                return text(values, field, at, depth);
            case StructFields.BOOLEAN:
                values[field] = Boolean.valueOf(first == 't');
                return first == 't' ? literal(at, "true") : literal(at, "false");
            default:
                int stop = number(at);
                values[field] = stop < 0 ? null : typed(fields.kinds[field], at, stop);
                return values[field] == null ? -1 : stop;
        }
    }

    private int struct(StructFields fields, Object[] values, int field, int at, int depth) {
        Object[] inner = new Object[fields.count];
        values[field] = new GenericInternalRow(inner);
        return object(fields, inner, at + 1, depth + 1);
    }

    private int text(Object[] values, int field, int at, int depth) {
        int stop;
        switch (text[at]) {
            case '"':
                stop = string(at + 1);
                values[field] = stop < 0 ? null : stringText(at + 1, stop);
                return values[field] == null ? -1 : stop + 1;
            case '{':
            case '[':
                clear();
                stop = copy(at, depth);
                values[field] = stop < 0 ? null : taken();
                return stop;
            case 't':
                values[field] = TRUE;
                return literal(at, "true");
            case 'f':
                values[field] = FALSE;
                return literal(at, "false");
            default:
                stop = number(at);
                values[field] = stop < 0 ? null : numberText(at, stop);
                return values[field] == null ? -1 : stop;
        }
    }

    /** Returns the number that was read last, null if the type does not hold it. */
    private Object typed(int kind, int start, int stop) {
        if (kind == StructFields.DOUBLE && fraction) {
            double number = decimal(start, stop);
            return Double.isInfinite(number) ? null : Double.valueOf(number);
        }
        if (fraction || digitCount > LONG_DIGITS) {
            return null;
        }
        long number = text[start] == '-' ? -digits : digits;
        switch (kind) {
            case StructFields.DOUBLE:
                return Double.valueOf((double) number);
            case StructFields.LONG:
                return Long.valueOf(number);
            case StructFields.INTEGER:
                return number == (int) number ? Integer.valueOf((int) number) : null;
            default:
                return number == (short) number ? Short.valueOf((short) number) : null;
        }
    }
}
