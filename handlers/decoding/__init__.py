"""Wire formats: Kafka records to events (``decoder``), and notifications to Kafka records
(``records.encoder``).

Four formats come in, one set of event types (``handlers.events``) goes out. ``DESIGN.md`` states the promises
of decoding; ``docs/FORMATS.md`` describes the formats.
"""
