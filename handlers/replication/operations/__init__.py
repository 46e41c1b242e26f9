"""What an operator does to a whole policy: pause, promotion, retirement, and compactions of its target."""
