"""Objects that events embed: the part of a partition that timelines need, and the stored type of a table.

An event of Hive 2.3 and 3.1 contains the table as the client sent it. The metastore stores another type: for
managed and external tables it follows the parameter ``EXTERNAL``, and nothing else.
``ALTER TABLE t SET TBLPROPERTIES ('EXTERNAL'='TRUE')`` sends a managed table with that parameter, and makes
it external. Whether a drop removes files depends on it.
"""

from __future__ import annotations

from typing import Annotated

from handlers.structs.objects import Table
from handlers.structs.struct import Struct, resolve


_MANAGED, _EXTERNAL, _VIEW = "MANAGED_TABLE", "EXTERNAL_TABLE", "VIRTUAL_VIEW"


class PartitionOutline(Struct):
    """Two fields of Hive's ``Partition``, with their numbers; the decoder skips the other fields like unknown
    ones.

    Timelines need no more. Decoding a whole partition takes most of the time of applying its event, and
    creates some thirty objects.
    """

    values: Annotated[list[str], 1]
    parameters: Annotated[dict[str, str] | None, 7] = None


resolve()


def to_stored_type(table: Table) -> Table:
    """Give a table of an event the type that its metastore has stored, and return the table; a client may
    have sent another type, or none.
    """
    if table.tableType is None and table.viewOriginalText is not None:
        table.tableType = _VIEW
    elif table.tableType in {None, _MANAGED, _EXTERNAL}:
        is_external = (table.parameters or {}).get("EXTERNAL", "").lower() == "true"
        table.tableType = _EXTERNAL if is_external else _MANAGED
    return table
