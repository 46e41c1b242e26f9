"""The versions, in the order of their numbers. The statements of a released script never change."""
