package tideline.split;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Parses one plain row: a strict JSON object in which every requested value fits its slot.
 *
 * Any other row has no result (null), and the caller parses it with from_json. So this class need not know how Spark treats malformed rows,
 * misfits, duplicate members or half a surrogate pair.
 *
 * The slots are written as Spark stores rows in memory (UnsafeRow): bits of NULLs, eight bytes for each slot, then the texts. Spark
 * copies such a row as a whole, while it would copy another row value by value.
 */
final class PlainRowParser extends JsonTexts {
    private static final int LONG_DIGITS = 18;
    private static final int FIRST_TEXT = 2;
    /** Integers below are exact as DOUBLE; the caller decides about greater numbers by their texts. */
    private static final double EXACT = 9007199254740992.0;

    private final int bitBytes;
    /** The fields of the result: malformed, slots, and the texts. */
    private final Object[] result;

    private PlainRowParser(byte[] text, int start, int end, int slotCount, int textCount) {
        super(text, end);
        bitBytes = UnsafeRow.calculateBitSetWidthInBytes(slotCount);
        result = new Object[FIRST_TEXT + textCount];
        used = bitBytes + 8 * slotCount;
        out = new byte[used + (end - start + 7 & ~7)];
        for (int n = 0; n < slotCount; n += 64) {
            int rest = slotCount - n;
            Platform.putLong(out, address(n >> 3), rest >= 64 ? -1L : (1L << rest) - 1);
        }
    }

    static InternalRow parse(KeyTree keys, int slotCount, int textCount, UTF8String row) {
        byte[] text;
        int start = 0;
        if (row.getBaseObject() instanceof byte[]) {
            text = (byte[]) row.getBaseObject();
            start = (int) (row.getBaseOffset() - Platform.BYTE_ARRAY_OFFSET);
        } else {
            text = row.getBytes();
        }
        int end = start + row.numBytes();
        return new PlainRowParser(text, start, end, slotCount, textCount).parseRow(keys, slotCount, start);
    }

    private InternalRow parseRow(KeyTree keys, int slotCount, int start) {
        int at = space(start);
        if (at >= end || text[at] != '{') {
            return null;
        }
        at = object(keys, at + 1, 1);
        if (at < 0 || space(at) < end) {
            return null;
        }
        reserve(0);
        UnsafeRow slots = new UnsafeRow(slotCount);
        slots.pointTo(out, used);
        result[0] = Boolean.FALSE;
        result[1] = slots;
        return new GenericInternalRow(result);
    }

    private int object(KeyTree keys, int at, int depth) {
        long[] seen = new long[(keys.count >> 6) + 1];
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
            int name = escaped ? findDecoded(keys, start, stop) : keys.find(text, start, stop, end);
            at = colon(stop + 1);
            if (at < 0) {
                return -1;
            }
            if (name < 0) {
                at = name == -1 ? skip(at, depth) : -1;
            } else if ((seen[name >> 6] >> name & 1) != 0) {
                return -1;
            } else {
                seen[name >> 6] |= 1L << name;
                at = text[at] == 'n' ? literal(at, "null") : value(keys, name, at, depth);
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

    /** Returns the number of a name with escapes, -1 if it is not requested, -2 if it contains half a surrogate pair. */
    private int findDecoded(KeyTree keys, int start, int stop) {
        int begin = used;
        if (!decode(start, stop)) {
            return -2;
        }
        byte[] name = takeFrom(begin);
        return keys.find(name, 0, name.length, name.length);
    }

    /** Reads a value that is not null. Keys within a value that is not an object have no values. */
    private int value(KeyTree keys, int name, int at, int depth) {
        RequestedKey key = keys.keys[name];
        KeyTree inner = keys.inner[name];
        int stop = -1;
        if (inner != null) {
            stop = text[at] == '{' ? object(inner, at + 1, depth + 1) : skip(at, depth);
            if (stop < 0) {
                return -1;
            }
        }
        if (key == null) {
            return stop;
        }
        if (key.text >= 0) {
            int begin = used;
            stop = appendText(at, depth);
            if (stop < 0) {
                return -1;
            }
            result[FIRST_TEXT + key.text] = UTF8String.fromBytes(takeFrom(begin));
        }
        return key.slot < 0 ? stop : slot(key, at, depth);
    }

    private int slot(RequestedKey key, int at, int depth) {
        byte first = text[at];
        switch (key.kind) {
            case RequestedKey.STRING:
                int begin = used;
                int end = appendText(at, depth);
                putText(key.slot, begin);
                return end;
            case RequestedKey.BOOLEAN:
                Platform.putBoolean(out, fill(key.slot), first == 't');
                return first == 't' ? literal(at, "true") : literal(at, "false");
            default:
                if (first == '"' && key.quoted) {
                    return quotedNumber(key, at + 1);
                }
                int stop = number(at);
                return stop >= 0 && putNumber(key, at, stop) ? stop : -1;
        }
    }

    /** Reads a number in quotes. It is only plain if it is written as Spark writes numbers. */
    private int quotedNumber(RequestedKey key, int start) {
        int stop = string(start);
        if (stop <= start || number(start) != stop || digits == 0 && !fraction && text[start] == '-') {
            return -1;
        }
        if (fraction) {
            byte[] written = Double.toString(decimal(start, stop)).getBytes(StandardCharsets.ISO_8859_1);
            if (!Arrays.equals(written, Arrays.copyOfRange(text, start, stop))) {
                return -1;
            }
        }
        return putNumber(key, start, stop) ? stop + 1 : -1;
    }

    /** Puts the number that was read last into its slot; false if the type does not hold it. */
    private boolean putNumber(RequestedKey key, int start, int stop) {
        if (key.kind == RequestedKey.DOUBLE && fraction) {
            return putDouble(key.slot, decimal(start, stop));
        }
        if (fraction || digitCount > LONG_DIGITS) {
            return false;
        }
        long number = text[start] == '-' ? -digits : digits;
        switch (key.kind) {
            case RequestedKey.DOUBLE:
                return putDouble(key.slot, (double) number);
            case RequestedKey.LONG:
                Platform.putLong(out, fill(key.slot), number);
                return true;
            case RequestedKey.INTEGER:
                Platform.putInt(out, fill(key.slot), (int) number);
                return number == (int) number;
            case RequestedKey.SHORT:
                Platform.putShort(out, fill(key.slot), (short) number);
                return number == (short) number;
            default:
                Platform.putByte(out, fill(key.slot), (byte) number);
                return number == (byte) number;
        }
    }

    private boolean putDouble(int slot, double number) {
        Platform.putDouble(out, fill(slot), number);
        return Math.abs(number) < EXACT;
    }

    private void putText(int slot, int begin) {
        Platform.putLong(out, fill(slot), (long) begin << 32 | used - begin);
        used = used + 7 & ~7;
    }

    /** Marks the slot as not NULL and returns the address of its value. */
    private long fill(int slot) {
        long bits = address(slot >> 6 << 3);
        Platform.putLong(out, bits, Platform.getLong(out, bits) & ~(1L << slot));
        return address(bitBytes + slot * 8);
    }

    private static long address(int offset) {
        return (long) Platform.BYTE_ARRAY_OFFSET + offset;
    }
}
