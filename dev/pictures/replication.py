"""Draws the pictures of the replica: the whole flow, the steps of a commit, and the load of a table."""

from __future__ import annotations

from itertools import pairwise

from dev.pictures.canvas import Canvas


def draw_flow() -> Canvas:
    """Draw the flow from the source's metastore to the four results."""
    canvas = Canvas(
        980,
        430,
        "Events flow from the source's metastore through Kafka to replica, timelines and partition index",
    )
    canvas.area(10, 10, 200, 280, "source cluster")
    writers = canvas.box(30, 45, 160, 44, "writers", "Hive, Spark, Trino")
    metastore = canvas.box(30, 135, 160, 44, "metastore", "notification log")
    warehouse = canvas.box(30, 225, 160, 44, "warehouse", "files, change manager")
    canvas.area(235, 10, 500, 280, "Tideline")
    relay = canvas.box(255, 135, 100, 44, "relay", kind="mark")
    topic = canvas.box(405, 135, 110, 44, "Kafka topic", "one partition")
    replica = canvas.box(570, 45, 145, 44, "replica", "one for each database", kind="mark")
    catalog = canvas.box(570, 225, 145, 44, "catalog", "timelines, index", kind="mark")
    canvas.area(760, 10, 210, 140, "target cluster (Hive 4)")
    target = canvas.box(785, 45, 160, 44, "metastore and files", "DDL, transactions")
    canvas.text(865, 115, "equal rows, write ids,", "small", "middle")
    canvas.text(865, 131, "partitions and statistics", "small", "middle")
    answers = canvas.box(785, 205, 160, 84, "answers", "command line, HTTP,", "metastore protocol")
    canvas.arrow(writers.bottom, metastore.top, label="commit")
    canvas.arrow(metastore.right, relay.left)
    canvas.arrow(relay.right, topic.left)
    canvas.arrow(topic.right, (542, 157), (542, 67), replica.left)
    canvas.arrow(topic.right, (542, 157), (542, 247), catalog.left)
    canvas.arrow(replica.right, target.left)
    canvas.arrow(catalog.right, answers.left)
    canvas.arrow((190, 240), (222, 240), (222, 108), (642, 108), replica.bottom)
    canvas.text(365, 102, "verified copies of the files", "small")
    canvas.area(10, 310, 960, 110, "flat event tables")
    raw = canvas.box(30, 345, 160, 44, "raw JSON events", "Kafka or files")
    splitter = canvas.box(255, 345, 150, 44, "splitter", "Spark", kind="mark")
    table = canvas.box(470, 345, 160, 44, "typed ORC table", "hour by hour")
    keys = canvas.box(785, 345, 160, 44, "users' queries", "which keys they read")
    canvas.arrow(raw.right, splitter.left)
    canvas.arrow(splitter.right, table.left)
    canvas.arrow(keys.left, table.right, label="become columns")
    assert warehouse.x == writers.x
    return canvas


def draw_commit() -> Canvas:
    """Draw the steps of one commit, and the effect of a crash at each of them."""
    canvas = Canvas(980, 300, "The steps by which one commit becomes visible on the target")
    steps = (
        ("1 read", "events of the", "transaction"),
        ("2 allocate", "the same write id", "on the target"),
        ("3 copy", "files of the write id,", "hidden and verified"),
        ("4 publish", "rename the files:", "still invisible"),
        ("5 commit", "rows become", "visible at once"),
        ("6 record", "position, in the", "state file"),
    )
    boxes = [
        canvas.box(15 + 162 * number, 60, 132, 74, *lines, kind="mark" if number == 4 else "box")
        for number, lines in enumerate(steps)
    ]
    for left, right in pairwise(boxes):
        canvas.arrow(left.right, right.left)
    canvas.text(15, 32, "one transaction of the source", "head")
    canvas.rule(boxes[4].x + 66, 134, boxes[4].x + 66, 200)
    canvas.text(boxes[4].x + 74, 196, "from here on readers see it", "small")
    canvas.text(15, 196, "a crash before that: nothing is visible, and steps 1 to 4 run again", "small")
    canvas.text(15, 226, "an abort at the source: the target's aborts too, and no file is copied", "small")
    canvas.text(
        15,
        256,
        "a crash between 5 and 6: the commit is repeated, has no second effect, and is recorded",
        "small",
    )
    return canvas


def draw_load() -> Canvas:
    """Draw how a table is loaded while all others are followed, and then catches up."""
    canvas = Canvas(980, 270, "A table is loaded while the others are followed, and catches up afterwards")
    for row, name in enumerate(("other tables", "loaded table")):
        canvas.text(15, 70 + 80 * row, name, "head")
    canvas.bar(140, 50, 810, 30)
    canvas.text(545, 70, "followed event by event, without a pause", "small", "middle")
    canvas.bar(140, 130, 120, 30)
    canvas.text(200, 150, "followed", "small", "middle")
    canvas.bar(260, 130, 340, 30, kind="warn")
    canvas.text(430, 150, "files are listed and copied; readers keep the old rows", "small", "middle")
    canvas.bar(600, 130, 150, 30, kind="box")
    canvas.text(675, 150, "catches up", "small", "middle")
    canvas.bar(750, 130, 200, 30)
    canvas.text(850, 150, "followed", "small", "middle")
    for x, label in ((260, "mark: event 4,711"), (600, "copied"), (750, "joined")):
        canvas.rule(x, 40, x, 190)
        canvas.text(x, 208, label, "small", "middle")
    canvas.text(
        15, 248, "Catching up reads the events since the mark once more, for this table only.", "small"
    )
    return canvas
