package tideline.split;

import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.apache.spark.unsafe.Platform;

/**
 * The tokens of one JSON text in UTF-8.
 *
 * Methods take a position and return the position behind what they read, or -1 if the text is not strict JSON at this place, or if it
 * comes close to a limit of Spark's reader (nesting, length of numbers, names and strings). The caller then leaves the whole text to Spark's
 * reader. Strings are searched eight bytes at a time.
 */
class JsonTokens {
    static final int DEPTH_MAX = 100;
    private static final int NUMBER_MAX = 100;
    private static final int STRING_MAX = 40000;
    private static final boolean LITTLE_ENDIAN = ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN;
    private static final long ONES = 0x0101010101010101L;
    private static final long HIGHS = 0x8080808080808080L;
    private static final long QUOTES = 0x2222222222222222L;
    private static final long BACKSLASHES = 0x5c5c5c5c5c5c5c5cL;
    private static final long SPACES = 0x2020202020202020L;
    private static final int EXACT_DIGITS = 15;
    private static final double[] EXACT_POWERS = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
    };

    final byte[] text;
    final int end;
    /** Whether the last string contains escapes. */
    boolean escaped;
    /** Whether the last string contains characters beyond U+FFFF. */
    boolean supplementary;
    /** Whether the last number has a fraction or an exponent. */
    boolean fraction;
    /** All digits of the last number without its point and sign, exact up to 18 digits. */
    long digits;
    int digitCount;
    private int exponent;

    JsonTokens(byte[] text, int end) {
        this.text = text;
        this.end = end;
    }

    /** Returns eight bytes as a number, the first byte lowest. The caller ensures that they are within the array. */
    static long word(byte[] text, int at) {
        long word = Platform.getLong(text, (long) Platform.BYTE_ARRAY_OFFSET + at);
        return LITTLE_ENDIAN ? word : Long.reverseBytes(word);
    }

    final int space(int at) {
        while (at < end) {
            byte c = text[at];
            if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
                break;
            }
            at++;
        }
        return at;
    }

    /** Reads the colon behind a name. There is a byte at the position that is returned. */
    final int colon(int at) {
        at = space(at);
        if (at >= end || text[at] != ':') {
            return -1;
        }
        at = space(at + 1);
        return at < end ? at : -1;
    }

    final int literal(int at, String word) {
        int length = word.length();
        if (at + length > end) {
            return -1;
        }
        for (int n = 0; n < length; n++) {
            if (text[at + n] != word.charAt(n)) {
                return -1;
            }
        }
        return at + length;
    }

    /** Reads a value that is not requested. */
    final int skip(int at, int depth) {
        switch (text[at]) {
            case '"':
                int stop = string(at + 1);
                return stop < 0 ? -1 : stop + 1;
            case '{':
                return skipMembers(at + 1, depth + 1, true);
            case '[':
                return skipMembers(at + 1, depth + 1, false);
            case 't':
                return literal(at, "true");
            case 'f':
                return literal(at, "false");
            case 'n':
                return literal(at, "null");
            default:
                return number(at);
        }
    }

    private int skipMembers(int at, int depth, boolean named) {
        byte close = (byte) (named ? '}' : ']');
        at = space(at);
        if (depth > DEPTH_MAX || at >= end) {
            return -1;
        }
        if (text[at] == close) {
            return at + 1;
        }
        while (true) {
            if (named) {
                at = at < end && text[at] == '"' ? string(at + 1) : -1;
                at = at < 0 ? -1 : colon(at + 1);
            }
            at = at < 0 || at >= end ? -1 : skip(at, depth);
            at = at < 0 ? end : space(at);
            if (at >= end) {
                return -1;
            }
            byte next = text[at++];
            if (next == close) {
                return at;
            }
            if (next != ',') {
                return -1;
            }
            at = space(at);
        }
    }

    final int number(int at) {
        int start = at;
        fraction = false;
        exponent = 0;
        if (text[at] == '-') {
            at++;
        }
        int first = at;
        digits = 0;
        if (at < end && text[at] == '0') {
            at++;
        } else {
            at = readDigits(at);
        }
        if (at == first) {
            return -1;
        }
        digitCount = at - first;
        if (at < end && text[at] == '.') {
            fraction = true;
            int point = at + 1;
            at = readDigits(point);
            if (at == point) {
                return -1;
            }
            digitCount += at - point;
            exponent = point - at;
        }
        if (at < end && (text[at] == 'e' || text[at] == 'E')) {
            fraction = true;
            at = readExponent(at + 1);
        }
        return at - start > NUMBER_MAX ? -1 : at;
    }

    private int readDigits(int at) {
        long value = digits;
        while (at < end) {
            int digit = text[at] - '0';
            if (digit < 0 || digit > 9) {
                break;
            }
            value = value * 10 + digit;
            at++;
        }
        digits = value;
        return at;
    }

    private int readExponent(int at) {
        boolean negative = at < end && text[at] == '-';
        if (at < end && (text[at] == '-' || text[at] == '+')) {
            at++;
        }
        int first = at;
        int power = 0;
        while (at < end && text[at] >= '0' && text[at] <= '9') {
            power = Math.min(power * 10 + text[at] - '0', 100000);
            at++;
        }
        exponent += negative ? -power : power;
        return at == first ? -1 : at;
    }

    /** Returns the last number, read from start to stop. Few digits and small powers of ten are exact, so one operation rounds once. */
    final double decimal(int start, int stop) {
        if (digitCount > EXACT_DIGITS || Math.abs(exponent) >= EXACT_POWERS.length) {
            return Double.parseDouble(new String(text, start, stop - start, StandardCharsets.ISO_8859_1));
        }
        double number = exponent < 0 ? digits / EXACT_POWERS[-exponent] : digits * EXACT_POWERS[exponent];
        return text[start] == '-' ? -number : number;
    }

    /** Returns the position of the closing quote of the string that begins at the position. */
    final int string(int at) {
        int last = at + STRING_MAX;
        escaped = false;
        supplementary = false;
        while (true) {
            at = findSpecial(at);
            if (at >= end || at > last) {
                return -1;
            }
            byte c = text[at];
            if (c == '"') {
                return at;
            }
            if (c == '\\') {
                escaped = true;
                at = escape(at + 1);
            } else if (c < 0) {
                at = character(at);
            } else {
                at = c < 0x20 ? -1 : at + 1;
            }
            if (at < 0) {
                return -1;
            }
        }
    }

    /** Moves on while none of the next eight bytes is a quote, a backslash, a control character or part of a longer character. */
    private int findSpecial(int at) {
        while (at + 8 <= end) {
            long word = word(text, at);
            long quote = word ^ QUOTES;
            long backslash = word ^ BACKSLASHES;
            long special = quote - ONES & ~quote | backslash - ONES & ~backslash | word - SPACES & ~word | word;
            special &= HIGHS;
            if (special != 0) {
                return at + (Long.numberOfTrailingZeros(special) >> 3);
            }
            at += 8;
        }
        return at;
    }

    private int escape(int at) {
        if (at >= end) {
            return -1;
        }
        switch (text[at]) {
            case '"':
            case '\\':
            case '/':
            case 'b':
            case 'f':
            case 'n':
            case 'r':
            case 't':
                return at + 1;
            case 'u':
                return hex(at + 1) < 0 ? -1 : at + 5;
            default:
                return -1;
        }
    }

    final int hex(int at) {
        if (at + 4 > end) {
            return -1;
        }
        int code = 0;
        for (int n = at; n < at + 4; n++) {
            int digit = text[n] < 0 ? -1 : Character.digit((char) text[n], 16);
            if (digit < 0) {
                return -1;
            }
            code = code << 4 | digit;
        }
        return code;
    }

    /** Reads a character of two to four bytes; -1 if it is not valid UTF-8. */
    private int character(int at) {
        int first = text[at] & 0xff;
        int length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
        if (first < 0xC2 || first > 0xF4 || at + length > end) {
            return -1;
        }
        for (int n = at + 1; n < at + length; n++) {
            if ((text[n] & 0xC0) != 0x80) {
                return -1;
            }
        }
        int second = text[at + 1] & 0xff;
        boolean overlong = first == 0xE0 && second < 0xA0 || first == 0xF0 && second < 0x90;
        boolean beyond = first == 0xED && second > 0x9F || first == 0xF4 && second > 0x8F;
        supplementary |= length == 4;
        return overlong || beyond ? -1 : at + length;
    }
}
