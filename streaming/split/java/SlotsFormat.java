package tideline.split;

import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Map;

/**
 * Spark's ORC format for rows with one column, a STRUCT: the file contains the fields of the STRUCT as its columns.
 *
 * Options, the schema of a file, its name and its commit are those of Spark. Only the rows take a shorter way into the file.
 */
public final class SlotsFormat extends OrcFileFormat {
    public OutputWriterFactory prepareWrite(SparkSession spark, Job job, Map options, StructType schema) {
        StructType slots = (StructType) schema.fields()[0].dataType();
        return new Writers(super.prepareWrite(spark, job, options, slots), slots);
    }

    private static final class Writers extends OutputWriterFactory {
        private final OutputWriterFactory spark;
        private final StructType slots;

        Writers(OutputWriterFactory spark, StructType slots) {
            this.spark = spark;
            this.slots = slots;
        }

        public String getFileExtension(TaskAttemptContext context) {
            return spark.getFileExtension(context);
        }

        public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
            return new SlotsWriter(path, slots, context);
        }
    }
}
