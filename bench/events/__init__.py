"""The way of an event, measured part by part and end to end, on real components.

A Kafka broker and two Hive 4 metastores run on the same machine and take their share of its cores; ``TIDELINE_STACK`` names an
``endpoints.json`` of a stack that runs already, otherwise one is started. Wall time throughout, unless a case says otherwise.
"""
