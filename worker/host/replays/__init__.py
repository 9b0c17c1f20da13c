"""Whether the histories of this node's open workflows replay with the code that runs here, and which code that is."""
