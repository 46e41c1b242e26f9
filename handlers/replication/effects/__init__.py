"""Effects of each kind of event on the target: one function for each kind, and each may be repeated.

| module | events |
|---|---|
| `databases` | CREATE, ALTER and DROP_DATABASE |
| `tables` | CREATE, ALTER and DROP_TABLE, with renames and truncations |
| `partitions` | ADD, ALTER and DROP_PARTITION, with renames and truncations |
| `files/` | INSERT and other copies into tables without transactions, moves, truncation, leftovers of drops |
| `statistics` | column statistics |
| `constraints` | the six kinds of constraints |
| `functions` | CREATE and DROP_FUNCTION |

`unreplicated` and `loaded_tables` decide which events have no effect, because their table is not replicable
or waits for a load.
"""
