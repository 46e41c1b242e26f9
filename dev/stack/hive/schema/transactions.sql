-- The tables of a Hive 4.2 metastore that its object mapping (package.jdo) does not describe, or would create too narrow.
-- Written from the column names in the SQL of org.apache.hadoop.hive.metastore.txn.** and of DbNotificationListener.
-- SchemaInit replaces @IDENTITY@, @TEXT@ and @BYTES@ by the types of Derby or PostgreSQL.

-- Notification log. MESSAGE would be a LONG VARCHAR of 32,700 characters by the mapping.
create table "SEQUENCE_TABLE" (
  "SEQUENCE_NAME" varchar(255) not null primary key,
  "NEXT_VAL" bigint not null
);
insert into "SEQUENCE_TABLE" values ('org.apache.hadoop.hive.metastore.model.MNotificationLog', 1);
insert into "SEQUENCE_TABLE" values ('org.apache.hadoop.hive.metastore.model.MTxnWriteNotificationLog', 1);

create table "NOTIFICATION_LOG" (
  "NL_ID" bigint not null primary key,
  "CAT_NAME" varchar(256),
  "DB_NAME" varchar(128),
  "EVENT_ID" bigint not null,
  "EVENT_TIME" integer not null,
  "EVENT_TYPE" varchar(32) not null,
  "MESSAGE" @TEXT@,
  "TBL_NAME" varchar(256),
  "MESSAGE_FORMAT" varchar(16)
);
create unique index "NOTIFICATION_LOG_EVENT_ID" on "NOTIFICATION_LOG" ("EVENT_ID");

create table "NOTIFICATION_SEQUENCE" (
  "NNI_ID" bigint not null primary key,
  "NEXT_EVENT_ID" bigint not null
);
insert into "NOTIFICATION_SEQUENCE" values (1, 1);

create table "TXN_WRITE_NOTIFICATION_LOG" (
  "WNL_ID" bigint not null,
  "WNL_TXNID" bigint not null,
  "WNL_WRITEID" bigint not null,
  "WNL_DATABASE" varchar(128) not null,
  "WNL_TABLE" varchar(128) not null,
  "WNL_PARTITION" varchar(767) not null,
  "WNL_TABLE_OBJ" @TEXT@ not null,
  "WNL_PARTITION_OBJ" @TEXT@,
  "WNL_FILES" @TEXT@,
  "WNL_EVENT_TIME" integer not null,
  primary key ("WNL_TXNID", "WNL_DATABASE", "WNL_TABLE", "WNL_PARTITION")
);

-- Transactions. TxnHandler reads max(TXN_ID), so one committed row is always there.
create table "TXNS" (
  "TXN_ID" @IDENTITY@ primary key,
  "TXN_STATE" char(1) not null,
  "TXN_STARTED" bigint not null,
  "TXN_LAST_HEARTBEAT" bigint not null,
  "TXN_USER" varchar(128) not null,
  "TXN_HOST" varchar(128) not null,
  "TXN_AGENT_INFO" varchar(128),
  "TXN_META_INFO" varchar(128),
  "TXN_HEARTBEAT_COUNT" integer,
  "TXN_TYPE" integer
);
insert into "TXNS" ("TXN_ID", "TXN_STATE", "TXN_STARTED", "TXN_LAST_HEARTBEAT", "TXN_USER", "TXN_HOST")
  values (0, 'c', 0, 0, '', '');

create table "TXN_COMPONENTS" (
  "TC_TXNID" bigint not null,
  "TC_DATABASE" varchar(128) not null,
  "TC_TABLE" varchar(256),
  "TC_PARTITION" varchar(767),
  "TC_OPERATION_TYPE" char(1) not null,
  "TC_WRITEID" bigint
);
create index "TC_TXNID_INDEX" on "TXN_COMPONENTS" ("TC_TXNID");
-- Not in Hive. A drop deletes the rows of its table here while it holds NOTIFICATION_SEQUENCE. On Derby, a scan for them
-- waits for the rows of each commit in progress, which waits for NOTIFICATION_SEQUENCE. Derby does not see that the drop has
-- two connections: all hang for a minute, then one of them fails.
create index "TC_DATABASE_INDEX" on "TXN_COMPONENTS" ("TC_DATABASE", "TC_TABLE", "TC_PARTITION");

create table "COMPLETED_TXN_COMPONENTS" (
  "CTC_TXNID" bigint not null,
  "CTC_DATABASE" varchar(128) not null,
  "CTC_TABLE" varchar(256),
  "CTC_PARTITION" varchar(767),
  "CTC_TIMESTAMP" timestamp default current_timestamp not null,
  "CTC_WRITEID" bigint,
  "CTC_UPDATE_DELETE" char(1) not null
);
create index "COMPLETED_TXN_COMPONENTS_INDEX" on "COMPLETED_TXN_COMPONENTS" ("CTC_DATABASE", "CTC_TABLE", "CTC_PARTITION");

create table "TXN_TO_WRITE_ID" (
  "T2W_TXNID" bigint not null,
  "T2W_DATABASE" varchar(128) not null,
  "T2W_TABLE" varchar(256) not null,
  "T2W_WRITEID" bigint not null
);
create unique index "TBL_TO_TXN_ID_IDX" on "TXN_TO_WRITE_ID" ("T2W_DATABASE", "T2W_TABLE", "T2W_TXNID");
create unique index "TBL_TO_WRITE_ID_IDX" on "TXN_TO_WRITE_ID" ("T2W_DATABASE", "T2W_TABLE", "T2W_WRITEID");

create table "NEXT_WRITE_ID" (
  "NWI_DATABASE" varchar(128) not null,
  "NWI_TABLE" varchar(256) not null,
  "NWI_NEXT" bigint not null
);
create unique index "NEXT_WRITE_ID_IDX" on "NEXT_WRITE_ID" ("NWI_DATABASE", "NWI_TABLE");

create table "WRITE_SET" (
  "WS_DATABASE" varchar(128) not null,
  "WS_TABLE" varchar(256) not null,
  "WS_PARTITION" varchar(767),
  "WS_TXNID" bigint not null,
  "WS_COMMIT_ID" bigint not null,
  "WS_OPERATION_TYPE" char(1) not null
);

create table "MIN_HISTORY_LEVEL" (
  "MHL_TXNID" bigint primary key,
  "MHL_MIN_OPEN_TXNID" bigint not null
);
create table "MIN_HISTORY_WRITE_ID" (
  "MH_TXNID" bigint not null,
  "MH_DATABASE" varchar(128) not null,
  "MH_TABLE" varchar(256) not null,
  "MH_WRITEID" bigint not null
);
create table "REPL_TXN_MAP" (
  "RTM_REPL_POLICY" varchar(256) not null,
  "RTM_SRC_TXN_ID" bigint not null,
  "RTM_TARGET_TXN_ID" bigint not null,
  primary key ("RTM_REPL_POLICY", "RTM_SRC_TXN_ID")
);
create table "MATERIALIZATION_REBUILD_LOCKS" (
  "MRL_TXN_ID" bigint not null primary key,
  "MRL_DB_NAME" varchar(128) not null,
  "MRL_TBL_NAME" varchar(256) not null,
  "MRL_LAST_HEARTBEAT" bigint not null
);

-- Locks.
create table "TXN_LOCK_TBL" ("TXN_LOCK" bigint not null);
insert into "TXN_LOCK_TBL" values (1);
create table "NEXT_LOCK_ID" ("NL_NEXT" bigint not null);
insert into "NEXT_LOCK_ID" values (1);
create table "HIVE_LOCKS" (
  "HL_LOCK_EXT_ID" bigint not null,
  "HL_LOCK_INT_ID" bigint not null,
  "HL_TXNID" bigint not null,
  "HL_DB" varchar(128) not null,
  "HL_TABLE" varchar(256),
  "HL_PARTITION" varchar(767),
  "HL_LOCK_STATE" char(1) not null,
  "HL_LOCK_TYPE" char(1) not null,
  "HL_LAST_HEARTBEAT" bigint not null,
  "HL_ACQUIRED_AT" bigint,
  "HL_USER" varchar(128) not null,
  "HL_HOST" varchar(128) not null,
  "HL_HEARTBEAT_COUNT" integer,
  "HL_AGENT_INFO" varchar(128),
  "HL_BLOCKEDBY_EXT_ID" bigint,
  "HL_BLOCKEDBY_INT_ID" bigint,
  primary key ("HL_LOCK_EXT_ID", "HL_LOCK_INT_ID")
);
create index "HL_TXNID_INDEX" on "HIVE_LOCKS" ("HL_TXNID");
create table "AUX_TABLE" (
  "MT_KEY1" varchar(128) not null,
  "MT_KEY2" bigint not null,
  "MT_COMMENT" varchar(255),
  primary key ("MT_KEY1", "MT_KEY2")
);

-- Compaction.
create table "NEXT_COMPACTION_QUEUE_ID" ("NCQ_NEXT" bigint not null);
insert into "NEXT_COMPACTION_QUEUE_ID" values (1);
create table "COMPACTION_QUEUE" (
  "CQ_ID" bigint primary key,
  "CQ_DATABASE" varchar(128) not null,
  "CQ_TABLE" varchar(256) not null,
  "CQ_PARTITION" varchar(767),
  "CQ_STATE" char(1) not null,
  "CQ_TYPE" char(1) not null,
  "CQ_TBLPROPERTIES" varchar(2048),
  "CQ_WORKER_ID" varchar(128),
  "CQ_ENQUEUE_TIME" bigint,
  "CQ_START" bigint,
  "CQ_RUN_AS" varchar(128),
  "CQ_HIGHEST_WRITE_ID" bigint,
  "CQ_META_INFO" @BYTES@,
  "CQ_HADOOP_JOB_ID" varchar(32),
  "CQ_ERROR_MESSAGE" @TEXT@,
  "CQ_NEXT_TXN_ID" bigint,
  "CQ_TXN_ID" bigint,
  "CQ_COMMIT_TIME" bigint,
  "CQ_INITIATOR_ID" varchar(128),
  "CQ_INITIATOR_VERSION" varchar(128),
  "CQ_WORKER_VERSION" varchar(128),
  "CQ_CLEANER_START" bigint,
  "CQ_RETRY_RETENTION" bigint default 0 not null,
  "CQ_POOL_NAME" varchar(128),
  "CQ_NUMBER_OF_BUCKETS" integer,
  "CQ_ORDER_BY" varchar(4000)
);
create table "COMPLETED_COMPACTIONS" (
  "CC_ID" bigint primary key,
  "CC_DATABASE" varchar(128) not null,
  "CC_TABLE" varchar(256) not null,
  "CC_PARTITION" varchar(767),
  "CC_STATE" char(1) not null,
  "CC_TYPE" char(1) not null,
  "CC_TBLPROPERTIES" varchar(2048),
  "CC_WORKER_ID" varchar(128),
  "CC_ENQUEUE_TIME" bigint,
  "CC_START" bigint,
  "CC_END" bigint,
  "CC_RUN_AS" varchar(128),
  "CC_HIGHEST_WRITE_ID" bigint,
  "CC_META_INFO" @BYTES@,
  "CC_HADOOP_JOB_ID" varchar(32),
  "CC_ERROR_MESSAGE" @TEXT@,
  "CC_NEXT_TXN_ID" bigint,
  "CC_TXN_ID" bigint,
  "CC_COMMIT_TIME" bigint,
  "CC_INITIATOR_ID" varchar(128),
  "CC_INITIATOR_VERSION" varchar(128),
  "CC_WORKER_VERSION" varchar(128),
  "CC_POOL_NAME" varchar(128),
  "CC_NUMBER_OF_BUCKETS" integer,
  "CC_ORDER_BY" varchar(4000)
);
create table "COMPACTION_METRICS_CACHE" (
  "CMC_DATABASE" varchar(128) not null,
  "CMC_TABLE" varchar(256) not null,
  "CMC_PARTITION" varchar(767),
  "CMC_METRIC_TYPE" varchar(128) not null,
  "CMC_METRIC_VALUE" integer not null,
  "CMC_VERSION" integer not null
);
