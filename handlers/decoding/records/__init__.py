"""Writing records of the format ``tideline-1``: one notification becomes one record, or several parts."""
