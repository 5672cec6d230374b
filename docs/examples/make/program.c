int twice(int value) { return value + value; }
