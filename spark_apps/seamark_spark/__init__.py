"""The data pipeline on Spark: executors turn source bytes into parts, the driver commits them."""
