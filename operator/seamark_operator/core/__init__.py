"""The decisions of the control plane: functions of what was observed, without clock, random or I/O."""
