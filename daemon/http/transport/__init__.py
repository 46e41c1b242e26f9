"""A listener with limits: connections, times, memory and answers that hold for all clients together."""
