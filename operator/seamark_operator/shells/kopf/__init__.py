"""The operator on Kubernetes: kopf watches, one thread runs the controller, probes tell if both live."""
