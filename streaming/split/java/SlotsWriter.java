package tideline.split;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.BytesColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.orc.OrcFile;
import org.apache.orc.TypeDescription;
import org.apache.orc.Writer;
import org.apache.orc.mapred.OrcOutputFormat;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;

/**
 * Writes the slots of rows to an ORC file, column by column.
 *
 * Spark's own writer makes an object of each value, and then looks up the type of each value again. This one collects rows as they are in
 * memory, and moves one column of all of them at a time to ORC's vectors. Texts are not copied again.
 */
final class SlotsWriter extends OutputWriter {
    private static final int ROWS = 1024;
    /** Collected rows stay in the processor's cache while their columns are read. */
    private static final int COLLECTED_BYTES = 1 << 19;

    private final String path;
    private final int[] kinds;
    private final int bitBytes;
    private final Writer writer;
    private final VectorizedRowBatch batch;
    private final long[] starts = new long[ROWS];
    private byte[] collected = new byte[COLLECTED_BYTES];
    private int used;
    private int rows;

    SlotsWriter(String path, StructType slots, TaskAttemptContext context) {
        this.path = path;
        kinds = new int[slots.fields().length];
        for (int n = 0; n < kinds.length; n++) {
            kinds[n] = RequestedKey.kindOf(slots.fields()[n].dataType());
        }
        bitBytes = UnsafeRow.calculateBitSetWidthInBytes(kinds.length);
        TypeDescription schema = OrcUtils.orcTypeDescription(slots);
        batch = schema.createRowBatch(ROWS);
        writer = open(context, schema);
    }

    private Writer open(TaskAttemptContext context, TypeDescription schema) {
        try {
            OrcFile.WriterOptions options = OrcOutputFormat.buildOptions(context.getConfiguration()).setSchema(schema);
            Path file = new Path(path);
            FileSystem files = file.getFileSystem(context.getConfiguration());
            options.fileSystem(files).physicalWriter(new Bounds(files, file, options));
            Writer opened = OrcFile.createWriter(file, options);
            OrcUtils.addSparkVersionMetadata(opened);
            return opened;
        } catch (IOException failed) {
            Platform.throwException(failed);
            return null;
        }
    }

    public String path() {
        return path;
    }

    public void write(InternalRow row) {
        UnsafeRow slots = (UnsafeRow) row.getStruct(0, kinds.length);
        int bytes = slots.getSizeInBytes();
        if (rows == ROWS || used + bytes > collected.length) {
            flush();
            if (bytes > collected.length) {
                collected = new byte[bytes];
            }
        }
        starts[rows] = (long) Platform.BYTE_ARRAY_OFFSET + used;
        Platform.copyMemory(slots.getBaseObject(), slots.getBaseOffset(), collected, starts[rows], bytes);
        rows++;
        used += bytes;
    }

    public void close() {
        flush();
        try {
            writer.close();
        } catch (IOException failed) {
            Platform.throwException(failed);
        }
    }

    private void flush() {
        if (rows == 0) {
            return;
        }
        for (int column = 0; column < kinds.length; column++) {
            fill(column);
        }
        batch.size = rows;
        try {
            writer.addRowBatch(batch);
        } catch (IOException failed) {
            Platform.throwException(failed);
        }
        rows = 0;
        used = 0;
        if (collected.length > COLLECTED_BYTES) {
            collected = new byte[COLLECTED_BYTES];
        }
    }

    private void fill(int column) {
        ColumnVector vector = batch.cols[column];
        int nulls = findNulls(column, vector.isNull);
        vector.noNulls = nulls == 0;
        vector.isRepeating = nulls == rows;
        if (nulls < rows) {
            int offset = bitBytes + column * 8;
            switch (kinds[column]) {
                case RequestedKey.STRING:
                    fillTexts(offset, (BytesColumnVector) vector);
                    break;
                case RequestedKey.DOUBLE:
                    fillDoubles(offset, ((DoubleColumnVector) vector).vector);
                    break;
                default:
                    fillIntegers(kinds[column], offset, ((LongColumnVector) vector).vector);
            }
        }
    }

    private int findNulls(int column, boolean[] isNull) {
        int word = column >> 6 << 3;
        long bit = 1L << column;
        int nulls = 0;
        for (int row = 0; row < rows; row++) {
            boolean none = (Platform.getLong(collected, starts[row] + word) & bit) != 0;
            isNull[row] = none;
            nulls += none ? 1 : 0;
        }
        return nulls;
    }

    /** The value of a NULL is zero in every row, and ORC does not read it. */
    private void fillTexts(int offset, BytesColumnVector texts) {
        for (int row = 0; row < rows; row++) {
            long place = Platform.getLong(collected, starts[row] + offset);
            int start = (int) (starts[row] - Platform.BYTE_ARRAY_OFFSET) + (int) (place >>> 32);
            texts.setRef(row, collected, start, (int) place);
        }
    }

    private void fillDoubles(int offset, double[] values) {
        for (int row = 0; row < rows; row++) {
            values[row] = Platform.getDouble(collected, starts[row] + offset);
        }
    }

    private void fillIntegers(int kind, int offset, long[] values) {
        switch (kind) {
            case RequestedKey.LONG:
                for (int row = 0; row < rows; row++) {
                    values[row] = Platform.getLong(collected, starts[row] + offset);
                }
                break;
            case RequestedKey.INTEGER:
                for (int row = 0; row < rows; row++) {
                    values[row] = Platform.getInt(collected, starts[row] + offset);
                }
                break;
            case RequestedKey.SHORT:
                for (int row = 0; row < rows; row++) {
                    values[row] = Platform.getShort(collected, starts[row] + offset);
                }
                break;
            default: // a BOOLEAN is the byte 1 or 0
                for (int row = 0; row < rows; row++) {
                    values[row] = Platform.getByte(collected, starts[row] + offset);
                }
        }
    }
}
