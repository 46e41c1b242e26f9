"""The Thrift structs of the Hive metastore, typed: a superset of Hive 2.3 to 4.2.

The metastore client sends and receives them, notification messages embed them and events carry them. Field names are Hive's.

| module | contents |
|---|---|
| `struct` | what a struct is: annotated fields, their wire types, copying and comparison |
| `objects`, `statistics`, `constraints` | the catalog's objects |
| `table_requests`, `transactions`, `notifications` | what calls send and receive |
| `exceptions` | the exceptions that calls declare |
| `tjson`, `json_readers`, `json_writers` | Thrift JSON, as embedded in messages |
| `binary` | Thrift's binary protocol, for what is kept in a store |
"""
