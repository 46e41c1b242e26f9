"""The configuration: one YAML file and ``TIDELINE__SECTION__KEY`` variables, checked as a whole before anything starts."""
