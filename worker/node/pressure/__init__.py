"""Resource pressure of the node: measurement (`signals`) and thresholds (`thresholds`)."""
