"""The configuration: one YAML file and ``TIDELINE__SECTION__KEY`` variables, checked as a whole at first.

``document`` reads the text and remembers the line of each key, ``fields`` are the kinds of values with their
rules, ``settings`` has the sections that several capabilities use, ``model`` composes them with those of each
capability, ``load`` validates, ``crosscheck`` holds the rules between two settings, and ``reference`` writes
docs/CONFIG.md.
"""
