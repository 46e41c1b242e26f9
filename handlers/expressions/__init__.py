"""Reading the expressions that Hive's clients send to ``getPartitionsByExpr``. See DESIGN.md."""

from handlers.expressions.expression_reader import ExpressionJvm


__all__ = ["ExpressionJvm"]
