package tideline.split;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Appends values as text, written as Spark's reader writes them: strings without escapes, numbers as Java's, objects and arrays compact. */
class JsonTexts extends JsonTokens {
    byte[] out;
    int used;

    JsonTexts(byte[] text, int end) {
        super(text, end);
    }

    /** Appends the text of a value; -1 if it contains half a surrogate pair or an infinite number. */
    final int appendText(int at, int depth) {
        int stop;
        switch (text[at]) {
            case '"':
                stop = string(at + 1);
                if (stop < 0) {
                    return -1;
                }
                if (escaped) {
                    return decode(at + 1, stop) ? stop + 1 : -1;
                }
                append(text, at + 1, stop);
                return stop + 1;
            case '{':
            case '[':
                return copy(at, depth);
            case 't':
                stop = literal(at, "true");
                break;
            case 'f':
                stop = literal(at, "false");
                break;
            default:
                stop = number(at);
                return stop >= 0 && appendNumber(at, stop) ? stop : -1;
        }
        if (stop >= 0) {
            append(text, at, stop);
        }
        return stop;
    }

    /** Returns what was appended since a position, and removes it. */
    final byte[] takeFrom(int begin) {
        byte[] taken = Arrays.copyOfRange(out, begin, used);
        Arrays.fill(out, begin, used, (byte) 0);
        used = begin;
        return taken;
    }

    /** Appends a value as it stands within the text of an object or array. */
    final int copy(int at, int depth) {
        byte first = text[at];
        if (first == '"') {
            return copyString(at);
        }
        if (first == '{' || first == '[') {
            return copyMembers(at, depth + 1, first == '{');
        }
        int start = at;
        at = skip(at, depth);
        if (at < 0) {
            return -1;
        }
        if (first == '-' || first >= '0' && first <= '9') {
            return appendNumber(start, at) ? at : -1;
        }
        append(text, start, at);
        return at;
    }

    private int copyMembers(int at, int depth, boolean named) {
        byte close = (byte) (named ? '}' : ']');
        append(text, at, at + 1);
        at = space(at + 1);
        if (depth > DEPTH_MAX || at >= end) {
            return -1;
        }
        if (text[at] == close) {
            append(text, at, at + 1);
            return at + 1;
        }
        while (true) {
            if (named) {
                at = at < end && text[at] == '"' ? copyString(at) : -1;
                at = at < 0 ? -1 : colon(at);
                reserve(1);
                out[used++] = ':';
            }
            at = at < 0 || at >= end ? -1 : copy(at, depth);
            at = at < 0 ? end : space(at);
            if (at >= end || text[at] != close && text[at] != ',') {
                return -1;
            }
            append(text, at, at + 1);
            if (text[at++] == close) {
                return at;
            }
            at = space(at);
        }
    }

    /** Appends a string with its quotes. Escapes that Spark's writer also uses stay; others become characters. */
    private int copyString(int at) {
        int stop = string(at + 1);
        if (stop < 0 || supplementary) {
            return -1;
        }
        if (!escaped) {
            append(text, at, stop + 1);
            return stop + 1;
        }
        reserve(stop + 1 - at);
        while (at <= stop) {
            byte c = text[at++];
            byte next = c == '\\' ? text[at] : (byte) 0;
            if (next == 'u') {
                int code = hex(at + 1);
                if (code < 0x20 || code == '"' || code == '\\' || isSurrogate(code)) {
                    return -1;
                }
                appendCharacter(code);
                at += 5;
            } else if (next == '/') {
                out[used++] = text[at++];
            } else {
                out[used++] = c;
                if (next != 0) {
                    out[used++] = text[at++];
                }
            }
        }
        return at;
    }

    private boolean appendNumber(int start, int stop) {
        if (!fraction) {
            boolean minusZero = digits == 0 && digitCount == 1;
            append(text, minusZero ? stop - 1 : start, stop);
            return true;
        }
        double number = decimal(start, stop);
        byte[] written = Double.toString(number).getBytes(StandardCharsets.ISO_8859_1);
        append(written, 0, written.length);
        return !Double.isInfinite(number);
    }

    /** Appends the characters of a string; false if it contains half a surrogate pair. */
    final boolean decode(int at, int stop) {
        reserve(stop - at);
        while (at < stop) {
            byte c = text[at++];
            if (c != '\\') {
                out[used++] = c;
                continue;
            }
            c = text[at++];
            if (c != 'u') {
                out[used++] = unescape(c);
                continue;
            }
            int code = hex(at);
            at += 4;
            if (isSurrogate(code)) {
                boolean pair = code < 0xDC00 && at + 6 <= stop && text[at] == '\\' && text[at + 1] == 'u';
                int low = pair ? hex(at + 2) : 0;
                if (low < 0xDC00 || low > 0xDFFF) {
                    return false;
                }
                code = 0x10000 + (code - 0xD800 << 10) + low - 0xDC00;
                at += 6;
            }
            appendCharacter(code);
        }
        return true;
    }

    private static byte unescape(byte c) {
        switch (c) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            default:
                return c;
        }
    }

    private static boolean isSurrogate(int code) {
        return code >= 0xD800 && code <= 0xDFFF;
    }

    /** Appends a character in UTF-8. Its escape is longer, so the room reserved for the whole string suffices. */
    private void appendCharacter(int code) {
        if (code < 0x80) {
            out[used++] = (byte) code;
            return;
        }
        int shift = code < 0x800 ? 6 : code < 0x10000 ? 12 : 18;
        int mark = code < 0x800 ? 0xC0 : code < 0x10000 ? 0xE0 : 0xF0;
        out[used++] = (byte) (mark | code >> shift);
        while (shift > 0) {
            shift -= 6;
            out[used++] = (byte) (0x80 | code >> shift & 0x3F);
        }
    }

    private void append(byte[] from, int start, int stop) {
        reserve(stop - start);
        System.arraycopy(from, start, out, used, stop - start);
        used += stop - start;
    }

    final void reserve(int more) {
        if (used + more > out.length) {
            out = Arrays.copyOf(out, Math.max(used + more, Math.max(256, out.length * 2)));
        }
    }
}
