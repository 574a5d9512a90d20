"""Raw sources: what can be addressed and read again, byte for byte."""
