"""`seamark local`: the control plane without Kubernetes, over a folder and Spark in local mode."""
