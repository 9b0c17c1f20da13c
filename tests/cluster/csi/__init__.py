"""CSI by official programs: the sanity suite over our driver of the tests, and the official mock as a driver of our node. Also disks that the cluster attaches."""
