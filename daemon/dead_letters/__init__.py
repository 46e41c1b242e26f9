"""Dead letters for operators: their commands, and their routes over HTTP."""
