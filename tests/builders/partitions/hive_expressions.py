"""Expressions written by Hive's own classes: Hive 2.3 from PySpark's jars, Hive 4 from the stack's."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.process.java_runtime import find_java
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant, Expression


GENERIC = "org.apache.hadoop.hive.ql.udf.generic.GenericUDF"


def call(function: str, *arguments: Expression) -> Call:
    """A call by the short name of its class: ``OPEqual``, ``In``; only ``like`` is not a generic function."""
    return Call(
        "org.apache.hadoop.hive.ql.udf.UDFLike" if function == "like" else GENERIC + function, arguments
    )


def column(name: str, type_: str = "string") -> ColumnReference:
    return ColumnReference(name, type_)


def constant(value: object, type_: str = "string") -> Constant:
    return Constant(None if value is None else str(value), type_)


class HiveWriter:
    """A Java process with the classes of one Hive version."""

    def __init__(self, *, is_hive4: bool) -> None:
        self._is_hive4 = is_hive4
        spark = find_spec("pyspark")
        assert spark is not None
        assert spark.origin is not None
        jars = sorted((Path(spark.origin).parent / "jars").glob("*.jar"))
        bridge = next(jar for jar in jars if jar.name.startswith("py4j"))
        path = locate_jars(read_lock("hive")) if is_hive4 else jars
        program = str(find_java()) if is_hive4 else shutil.which("java")
        port, process = launch_gateway(
            jarpath=str(bridge),
            classpath=os.pathsep.join(map(str, path)),
            javaopts=[
                "-Xmx128m",
                *(f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("util", "net")),
            ],
            java_path=program,
            die_on_exit=True,
            return_proc=True,
        )
        self._process = process
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, enable_memory_management=False)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gateway.close()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def bytes_of(self, expression: Expression) -> bytes:
        """Return what a client of this Hive version sends for an expression."""
        node = self._node(expression)
        tool = self._gateway.jvm.org.apache.hadoop.hive.ql.exec.SerializationUtilities
        if self._is_hive4:
            return bytes(tool.serializeObjectWithTypeInformation(node))
        return bytes(tool.serializeExpressionToKryo(node))

    def _node(self, expression: Expression) -> Any:
        plan = self._gateway.jvm.org.apache.hadoop.hive.ql.plan
        match expression:
            case ColumnReference(name, type_):
                # FBT003: Java has no named arguments
                return plan.ExprNodeColumnDesc(self._type(type_), name, "t", True)  # noqa: FBT003
            case Constant(text, type_):
                return plan.ExprNodeConstantDesc(self._type(type_), self._value(text, type_))
            case Call(function, arguments):
                children = self._gateway.jvm.java.util.ArrayList()
                for argument in arguments:
                    children.add(self._node(argument))
                return plan.ExprNodeGenericFuncDesc(self._type("boolean"), self._function(function), children)

    def _function(self, name: str) -> Any:
        java_lang = self._gateway.jvm.java.lang
        if not name.startswith(GENERIC):
            return self._gateway.jvm.org.apache.hadoop.hive.ql.udf.generic.GenericUDFBridge(
                "like", True, name
            )  # noqa: FBT003 - positional in Java
        found = getattr(java_lang, "Class").forName(name)  # noqa: B009 - mypy reads .Class as a type
        return found.getDeclaredConstructor(self._gateway.new_array(java_lang.Class, 0)).newInstance(
            self._gateway.new_array(java_lang.Object, 0)
        )

    def _type(self, name: str) -> Any:
        return self._gateway.jvm.org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory.getPrimitiveTypeInfo(
            name
        )

    def _value(self, text: str | None, type_: str) -> Any:
        jvm = self._gateway.jvm
        own = jvm.org.apache.hadoop.hive.common.type if self._is_hive4 else jvm.java.sql
        if text is None or type_ == "string":
            return text
        if type_ == "boolean":
            return text == "true"
        if type_ == "bigint":
            return jvm.java.lang.Long.valueOf(text)
        if type_ == "int":
            return int(text)
        return own.Date.valueOf(text) if type_ == "date" else own.Timestamp.valueOf(text)
