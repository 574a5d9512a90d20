"""Pure builders of the child objects: values in, Kubernetes JSON out, no I/O."""
