package tideline.split;

import java.io.Serializable;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The requested names of one object, found by the bytes of a member's name.
 *
 * A name is a key, or the beginning of longer keys (inner), or both. A hash table is addressed by the first eight bytes of a name and its
 * length. Most names of members are not requested, and are rejected by one comparison of eight bytes.
 */
final class KeyTree implements Serializable {
    private static final long MIX = 0x9E3779B97F4A7C15L;

    final int count;
    /** The key of each name; null for a name that only begins longer keys. */
    final RequestedKey[] keys;
    /** The names within each name; null if there are none. */
    final KeyTree[] inner;
    private final byte[][] names;
    private final long[] heads;
    private final int[] table;

    /** Creates the tree of keys that are equal in their first members, as many as depth. */
    KeyTree(List requested, int depth) {
        LinkedHashMap groups = new LinkedHashMap();
        for (Object each : requested) {
            String name = ((RequestedKey) each).members[depth];
            if (!groups.containsKey(name)) {
                groups.put(name, new java.util.ArrayList());
            }
            ((List) groups.get(name)).add(each);
        }
        count = groups.size();
        keys = new RequestedKey[count];
        inner = new KeyTree[count];
        names = new byte[count][];
        heads = new long[count];
        table = new int[Integer.highestOneBit(Math.max(count, 1)) * 4];
        Arrays.fill(table, -1);
        int n = 0;
        for (Object name : groups.keySet()) {
            add(n++, (String) name, (List) groups.get(name), depth + 1);
        }
    }

    private void add(int n, String name, List group, int depth) {
        List deeper = new java.util.ArrayList();
        for (Object each : group) {
            if (((RequestedKey) each).members.length == depth) {
                keys[n] = (RequestedKey) each;
            } else {
                deeper.add(each);
            }
        }
        inner[n] = deeper.isEmpty() ? null : new KeyTree(deeper, depth);
        names[n] = UTF8String.fromString(name).getBytes();
        heads[n] = head(names[n], 0, names[n].length, names[n].length);
        int at = place(heads[n], names[n].length);
        while (table[at] >= 0) {
            at = at + 1 & table.length - 1;
        }
        table[at] = n;
    }

    /** Returns the number of the name that is the bytes from start to stop, or -1. Bytes before end may be read. */
    int find(byte[] text, int start, int stop, int end) {
        long head = head(text, start, stop, end);
        int length = stop - start;
        int at = place(head, length);
        int name = table[at];
        while (name >= 0) {
            if (heads[name] == head && names[name].length == length && sameTail(names[name], text, start)) {
                return name;
            }
            at = at + 1 & table.length - 1;
            name = table[at];
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
