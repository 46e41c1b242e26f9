"""The Spark driver of one flat table.

``run`` is the life of the streaming query, ``assembly`` builds its parts, ``session`` starts Spark,
``class_archive`` makes that faster, and users and the daemon call ``commands``. ``progress`` defines the
events that a driver reports, ``executor_pods`` handles executors on Kubernetes, and ``local_catalog`` is
Spark's own metastore for a trial.
"""
