package tideline.split;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.orc.OrcFile;
import org.apache.orc.OrcProto;
import org.apache.orc.impl.PhysicalFsWriter;
import org.apache.orc.impl.StreamName;

/**
 * Writes ORC files whose bounds of values let no reader skip rows that match.
 *
 * Texts: ORC's writer takes the least and the greatest text by bytes, that is by code points. Rows are filtered in this order, too. But ORC's Java
 * reader, in Spark and Hive, compares a filter with the bounds by UTF-16 units. The orders differ where U+10000 and above, such as emoji,
 * meet U+E000 to U+FFFF, such as full-width letters; there the reader skips rows that match. So a lower bound must not contain the
 * latter, and an upper bound must not contain the former: then any text that is beyond the bound in one order is beyond it in both.
 * Other bounds are replaced by the nearest one before or after that obeys this. If there is none above, the group of rows or stripe
 * gets no statistics of texts, so that nothing is skipped. The bounds of a whole file stay then: Java's readers do not compare them, and need
 * the sum of lengths beside them.
 *
 * Doubles: rows are filtered with 0.0 equal to -0.0, but the reader compares a filter with the bounds by {@link Double#compareTo}, which
 * orders them. So zero is -0.0 as a lower bound and 0.0 as an upper bound.
 */
public final class Bounds extends PhysicalFsWriter {
    Bounds(FileSystem files, Path path, OrcFile.WriterOptions options) throws IOException {
        super(files, path, options);
    }

    public void writeIndex(StreamName name, OrcProto.RowIndex.Builder index) throws IOException {
        for (int n = 0; n < index.getEntryCount(); n++) {
            correct(index.getEntryBuilder(n).getStatisticsBuilder(), false);
        }
        super.writeIndex(name, index);
    }

    public void writeStatistics(StreamName name, OrcProto.ColumnStatistics.Builder statistics) {
        correct(statistics, name.getKind() == OrcProto.Stream.Kind.FILE_STATISTICS);
        super.writeStatistics(name, statistics);
    }

    private static void correct(OrcProto.ColumnStatistics.Builder statistics, boolean ofFile) {
        if (statistics.hasStringStatistics()) {
            correctTexts(statistics, ofFile);
        } else if (statistics.hasDoubleStatistics()) {
            correctZeros(statistics);
        }
    }

    private static void correctZeros(OrcProto.ColumnStatistics.Builder statistics) {
        OrcProto.DoubleStatistics.Builder numbers = statistics.getDoubleStatistics().toBuilder();
        if (numbers.hasMinimum() && numbers.getMinimum() == 0.0) {
            statistics.setDoubleStatistics(numbers.setMinimum(-0.0));
        }
        if (numbers.hasMaximum() && numbers.getMaximum() == 0.0) {
            statistics.setDoubleStatistics(numbers.setMaximum(0.0));
        }
    }

    private static void correctTexts(OrcProto.ColumnStatistics.Builder statistics, boolean ofFile) {
        OrcProto.StringStatistics.Builder texts = statistics.getStringStatistics().toBuilder();
        String least = texts.hasMinimum() ? texts.getMinimum() : texts.getLowerBound();
        String greatest = texts.hasMaximum() ? texts.getMaximum() : texts.getUpperBound();
        String lower = lower(least);
        String upper = upper(greatest);
        if (lower.equals(least) && greatest.equals(upper)) {
            return;
        }
        if (upper == null) {
            if (!ofFile) {
                statistics.clearStringStatistics();
            }
            return;
        }
        if (texts.hasMinimum()) {
            texts.setMinimum(lower);
        } else {
            texts.setLowerBound(lower);
        }
        if (texts.hasMaximum()) {
            texts.setMaximum(upper);
        } else {
            texts.setUpperBound(upper);
        }
        statistics.setStringStatistics(texts);
    }

    /** Return the bound without what follows the first character of U+E000 or above. */
    public static String lower(String least) {
        for (int place = 0; place < least.length(); place++) {
            if (least.charAt(place) >= '\uE000') {
                return least.substring(0, place);
            }
        }
        return least;
    }

    /** Return a text above all that begin with what precedes the first character beyond U+FFFF; null if there is none. */
    public static String upper(String greatest) {
        for (int place = 0; place < greatest.length(); place++) {
            if (Character.isSurrogate(greatest.charAt(place))) {
                return findSuccessor(greatest.substring(0, place));
            }
        }
        return greatest;
    }

    private static String findSuccessor(String text) {
        for (int place = text.length() - 1; place >= 0; place--) {
            char last = text.charAt(place);
            if (last != '\uFFFF') {
                char next = last == '\uD7FF' ? '\uE000' : (char) (last + 1); // no surrogate
                return text.substring(0, place) + next;
            }
        }
        return null;
    }
}
