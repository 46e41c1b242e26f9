"""Plain managed tables, which Hive 4 does not create: it makes them external (TRANSLATED_TO_EXTERNAL) and still owns their data.

Sources of Hive 2.3 and 3.1 have such tables, and so has a Hive 4 whose ``metastore.metadata.transformer.class`` is empty. The metastore
translates only CREATE_TABLE. An ALTER_TABLE with the source's table would make the target's managed again, so every later request
contains the translated table. A target that does not translate keeps them as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.replication.target.objects import is_plain_managed, translate_plain_table


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.structs.objects import Table


def translate(table: Table, target: Metastore) -> Table:
    """Change a table of the source into what the target makes of its kind, and return it; only plain managed ones cost a call."""
    if is_plain_managed(table) and target.translates_plain_tables():
        translate_plain_table(table)
    return table
