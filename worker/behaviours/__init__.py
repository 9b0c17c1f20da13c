"""Which numbered behaviours a node's runs follow: what it is committed to, what each run has, who raises the old ones."""
