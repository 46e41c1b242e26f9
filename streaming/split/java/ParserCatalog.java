package tideline.split;

import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of one function per layout, and of the function that splits documents. The functions exist on the driver only; executors receive them with the tasks. */
public final class ParserCatalog implements FunctionCatalog {
    private static final ConcurrentHashMap FUNCTIONS = new ConcurrentHashMap();

    static {
        FUNCTIONS.put(DocumentsFunction.NAME, new DocumentsFunction());
    }

    private String catalogName;

    /** Creates the function for the schemas of the slots and of further texts, in Spark's JSON form. */
    public static void register(String name, String slots, String texts) {
        FUNCTIONS.put(name, new ParserFunction(name, (StructType) DataType.fromJson(slots), (StructType) DataType.fromJson(texts)));
    }

    public void initialize(String name, CaseInsensitiveStringMap options) {
        catalogName = name;
    }

    public String name() {
        return catalogName;
    }

    public Identifier[] listFunctions(String[] namespace) {
        return new Identifier[0];
    }

    public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
        ScalarFunction function = (ScalarFunction) FUNCTIONS.get(identifier.name());
        if (function == null) {
            throw new NoSuchFunctionException(identifier);
        }
        return new Unbound(function);
    }

    private static final class Unbound implements UnboundFunction {
        private final ScalarFunction function;

        Unbound(ScalarFunction function) {
            this.function = function;
        }

        public BoundFunction bind(StructType input) {
            return function;
        }

        public String description() {
            return function.name();
        }

        public String name() {
            return function.name();
        }
    }
}
