"""The consumer: reads a source's topic and passes each event to a projection once, in order, without
omissions.

``fetcher`` reads from Kafka in a separate thread, and ``seeker`` finds the offset of a position.
``topic_reader`` decodes records, proves that no event is missing, and fills gaps of the topic.
``shared`` lets the projections of a source read together.
``projection`` is the port of a projection and the loop that drives it.
"""
