package tideline.split;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The parser of plain rows as a function of Spark SQL: a STRING becomes a STRUCT, or NULL if the row is not plain. */
public final class ParserFunction implements ScalarFunction, Serializable {
    private final String name;
    private final StructType type;
    private final StructFields fields;

    public ParserFunction(String name, StructType type, String doubt) {
        this.name = name;
        this.type = type;
        this.fields = new StructFields(type, doubt);
    }

    /** Spark's generated code calls this method by its name, also for NULL. */
    public InternalRow invoke(UTF8String row) {
        return row == null ? null : PlainRowParser.parse(fields, row);
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
