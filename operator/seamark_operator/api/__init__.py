"""The custom resources as typed values: what users write, and what the control plane tells them."""
