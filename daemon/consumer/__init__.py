"""The consumer: reads a source's topic and hands a projection its events, in order, each once, none missing.

``fetching`` talks to Kafka in a thread of its own, ``seeking`` finds where a position lies, ``intake`` decodes, ``reading``
proves that nothing is missing and fills in what the topic lost, ``following`` is the loop that drives a projection.
"""
